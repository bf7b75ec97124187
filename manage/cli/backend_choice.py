"""The choice of the backend of a command, and its responses as JSON."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from manage.api.models import ResponseModel
from manage.cli.backend import Backend, LocalBackend
from manage.cli.console import (
    API_KEY_VARIABLE,
    BASE_URL_VARIABLE,
    open_control,
    print_json,
    read_settings,
)
from manage.cli.remote import ApiKeyError, RemoteBackend, is_exposed, read_api_key
from runtime.settings import Settings, SettingsError


@contextmanager
def open_backend(
    base_url: str | None, data_dir: str | None, user: str | None = None
) -> Iterator[Backend]:
    """Open the service to act on.

    That is a remote one where ``--base-url`` names it, or where the environment has both its
    address and a key; otherwise the data directory of this machine."""
    remote = find_remote(base_url, data_dir, user)
    if remote is None:
        settings = read_settings(data_dir=data_dir)
        with open_control(settings) as control:
            yield LocalBackend(settings, control, user)
        return
    try:
        api_key = read_api_key()
    except ApiKeyError as error:
        raise click.UsageError(str(error)) from error
    if is_exposed(remote):
        click.echo(
            "Warning: without https the key can be read on its way to the service.", err=True
        )
    with RemoteBackend(remote, api_key) as backend:
        yield backend


def find_remote(base_url: str | None, data_dir: str | None, user: str | None = None) -> str | None:
    """Return the address of the remote service that is meant, None for the data on this machine.

    Raises UsageError."""
    if base_url is None:
        variables = {BASE_URL_VARIABLE, API_KEY_VARIABLE}
        if data_dir is not None or user is not None or not all(map(os.environ.get, variables)):
            return None
        base_url = os.environ[BASE_URL_VARIABLE]
    elif data_dir is not None or user is not None:
        other = "--data-dir" if data_dir is not None else "--user"
        raise click.UsageError(
            f"--base-url names a remote service; {other} is for data on this machine"
        )
    try:
        return Settings.from_env({BASE_URL_VARIABLE: base_url}).base_url
    except SettingsError as error:
        raise click.UsageError(
            str(error).replace(f"{BASE_URL_VARIABLE}=", "--base-url ")
        ) from error


def print_response(response: ResponseModel) -> None:
    """Print a response as the API sends it."""
    print_json(response.model_dump(mode="json", by_alias=True))
