"""``taximeter users link``"""

import click

from manage.console import (
    data_dir_option,
    explained,
    json_option,
    open_control,
    print_json,
    read_settings,
)
from store.control import ControlDatabase, NotFoundError
from store.settings import Settings
from store.sign_in import SignIn


@click.group()
def users() -> None:
    """People who may sign in to the pages."""


@users.command()
@click.argument("email", required=False)
@data_dir_option
@json_option
def link(email: str | None, data_dir: str | None, as_json: bool) -> None:
    """Print a link that signs in the local user, or the one with this address.

    It works once, for 15 minutes.
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
    """Raises NotFoundError when there is no such user."""
    user_id = control.find_user(email)
    if user_id is None:
        raise NotFoundError(f"there is no user {email}" if email else "there is no local user")
    return f"{settings.base_url}/sign-in/link?token={SignIn(control).make_link(user_id)}"
