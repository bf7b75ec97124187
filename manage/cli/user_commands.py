"""``taximeter users list|create|delete|link``, for the operator."""

from dataclasses import asdict

import click

from manage.cli.operator_command import DataDirectory, operator_command
from manage.cli.program import name_commands
from manage.cli.terminal import format_table, format_text, format_time
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store.control import people
from store.control.database import ControlDatabase
from store.control.sign_in import SignIn
from store.control.users import Users


@click.group()
def users() -> None:
    """Manage users, who can sign in and have service API keys.

    For the operator, on the machine where the data is.

    \b
    Examples:
      taximeter users create --email ada@example.org
      taximeter users link ada@example.org
    """


@users.command("list")
@operator_command
def list_users(place: DataDirectory) -> None:
    """List all users, newest first, with times in UTC. The local user, for whom this program acts,
    has no e-mail address.

    \b
    Examples:
      taximeter users list
      taximeter users list --json | jq -r '.items[].email'
    """
    with place.open_control() as control:
        members = Users(control).list()
    table = format_table(
        ("E-MAIL", "ORGANISATION", "ROLE", "CREATED (UTC)", "ORGANISATION ID"),
        [
            (
                member.email or "(local user)",
                member.organization_name,
                member.role,
                format_time(member.created_at),
                member.organization_id,
            )
            for member in members
        ],
    )
    items = [asdict(member) for member in members]
    place.print({"items": items, "nextCursor": None, "hasMore": False}, table)


@users.command("create")
@click.option("--email", required=True, help="The e-mail address that the user signs in with.")
@click.option(
    "--org", metavar="ID|NAME", help="Add the user to this organisation instead of a new one."
)
@operator_command
def create_user(place: DataDirectory, email: str, org: str | None) -> None:
    """Create a user, in a new organisation or an existing one.

    \b
    Examples:
      taximeter users create --email ada@example.org
      taximeter users create --email bob@example.org --org ada@example.org
      taximeter users create --email eve@example.org --org Local
    """
    with place.open_control() as control:
        member = Users(control).create(email, join=org)
    link = name_commands(f"`taximeter users link {format_text(member.email)}`")
    place.print(
        asdict(member),
        f"Created {format_text(member.email)} in the organisation {terminal_line(member.organization_name)}.\n"
        f"{link} prints a link that signs them in.",
    )


@users.command("delete")
@click.argument("email")
@operator_command
def delete_user(place: DataDirectory, email: str) -> None:
    """Delete a user, with their keys and sessions. The data of their organisation is kept.

    \b
    Examples:
      taximeter users delete bob@example.org
    """
    with place.open_control() as control:
        member = Users(control).delete(email)
    place.print({"ok": True}, f"Deleted {format_text(member.email)}.")


@users.command()
@click.argument("email", required=False)
@operator_command
def link(place: DataDirectory, email: str | None) -> None:
    """Print a link that signs in a user.

    Without an address the link is for the local user. It works once, for 15 minutes.

    \b
    Examples:
      taximeter users link
      taximeter users link ada@example.org
    """
    with place.open_control() as control:
        url = make_link(place.settings, control, email)
    place.print({"url": url}, url)


def make_link(settings: Settings, control: ControlDatabase, email: str | None = None) -> str:
    """Return a link that signs in the user with this address, or the local user if ``email`` is None.

    Raises NotFoundError if there is no such user."""
    with control.reading() as db:
        user_id = people.get_user_id(db, email)
    return settings.link_url(SignIn(control).make_link(user_id))
