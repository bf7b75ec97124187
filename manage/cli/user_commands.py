"""``taximeter users list|create|delete|link``, for the operator."""

from dataclasses import asdict
from typing import Any

import click

from manage.cli.console import (
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    read_settings,
)
from manage.cli.program import name_commands
from manage.cli.terminal import format_text, format_time, print_table
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store.control import people
from store.control.database import ControlDatabase
from store.control.people import Member
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
@data_dir_option
@json_option
def list_users(data_dir: str | None, as_json: bool) -> None:
    """List all users, newest first, with times in UTC. The local user, for whom this program acts,
    has no e-mail address.

    \b
    Examples:
      taximeter users list
      taximeter users list --json | jq -r '.items[].email'
    """
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            members = Users(control).list()
    if as_json:
        items = [user_json(member) for member in members]
        print_json({"items": items, "nextCursor": None, "hasMore": False})
        return
    print_table(
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


@users.command("create")
@click.option("--email", required=True, help="The e-mail address that the user signs in with.")
@click.option(
    "--org", metavar="ID|NAME", help="Add the user to this organisation instead of a new one."
)
@data_dir_option
@json_option
def create_user(email: str, org: str | None, data_dir: str | None, as_json: bool) -> None:
    """Create a user, in a new organisation or an existing one.

    \b
    Examples:
      taximeter users create --email ada@example.org
      taximeter users create --email bob@example.org --org ada@example.org
      taximeter users create --email eve@example.org --org Local
    """
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            member = Users(control).create(email, join=org)
    if as_json:
        print_json(user_json(member))
        return
    link = name_commands(f"`taximeter users link {format_text(member.email)}`")
    click.echo(
        f"Created {format_text(member.email)} in the organisation {terminal_line(member.organization_name)}.\n"
        f"{link} prints a link that signs them in."
    )


@users.command("delete")
@click.argument("email")
@data_dir_option
@json_option
def delete_user(email: str, data_dir: str | None, as_json: bool) -> None:
    """Delete a user, with their keys and sessions. The data of their organisation is kept.

    \b
    Examples:
      taximeter users delete bob@example.org
    """
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            member = Users(control).delete(email)
    if as_json:
        print_json({"ok": True})
    else:
        click.echo(f"Deleted {format_text(member.email)}.")


@users.command()
@click.argument("email", required=False)
@data_dir_option
@json_option
def link(email: str | None, data_dir: str | None, as_json: bool) -> None:
    """Print a link that signs in a user.

    That is the user with this address, without one the local user. It works once, for 15 minutes.

    \b
    Examples:
      taximeter users link
      taximeter users link ada@example.org
    """
    with explained():
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            url = make_link(settings, control, email)
    if as_json:
        print_json({"url": url})
    else:
        click.echo(url)


def make_link(settings: Settings, control: ControlDatabase, email: str | None = None) -> str:
    """Return a link that signs in a user. Raises NotFoundError when there is no such user."""
    with control.reading() as db:
        user_id = people.get_user_id(db, email)
    return settings.link_url(SignIn(control).make_link(user_id))


def user_json(member: Member) -> dict[str, Any]:
    return asdict(member)
