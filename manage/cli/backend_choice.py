"""The choice of the backend that a command uses: this machine or a remote service."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib import import_module

import click

from manage.cli.backend import Backend, LocalBackend
from manage.cli.console import (
    API_KEY_VARIABLE,
    BASE_URL_VARIABLE,
    open_control,
    read_settings,
)
from runtime import extensions
from runtime.settings import Settings, SettingsError
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.people import Caller, list_organization_ids
from store.traces.paths import find_trace_files


@contextmanager
def open_backend(
    base_url: str | None,
    data_dir: str | None,
    user: str | None = None,
    *,
    running: Settings | None = None,
) -> Iterator[Backend]:
    """Open the service that a command acts on.

    It is a remote one if ``--base-url`` names one, or if the environment has an address and a key;
    otherwise it is the data directory of this machine. ``running`` are the settings of the service
    that runs on that directory; without them the settings of this environment are used."""
    remote = find_remote(base_url, data_dir, user)
    if remote is not None:
        with open_remote(remote) as backend:
            yield backend
        return
    settings = running or read_settings(data_dir=data_dir)
    with open_control(settings) as control, ExitStack() as stack:
        yield open_local(stack, settings, control, find_caller(settings, control, user))


@contextmanager
def open_all(base_url: str | None, data_dir: str | None) -> Iterator[Sequence[Backend]]:
    """Open a backend for each organisation of the data directory; for a remote service, for the key's one.

    Organisations that are known only by their trace files are included."""
    remote = find_remote(base_url, data_dir)
    if remote is not None:
        with open_remote(remote) as backend:
            yield [backend]
        return
    settings = read_settings(data_dir=data_dir)
    with open_control(settings) as control, ExitStack() as stack:
        with control.reading() as db:
            known = list_organization_ids(db)
        found = {*known, *(path.parent.name for path in find_trace_files(settings.data_dir))}
        yield [
            open_local(stack, settings, control, Caller.of_operator(each)) for each in sorted(found)
        ]


def open_remote(address: str) -> AbstractContextManager[Backend]:
    """Open the remote service at ``address`` with the API key from the environment."""
    # Imported here: loading an HTTP client takes a tenth of the time of a local command.
    remote = import_module("manage.cli.remote")
    backend: AbstractContextManager[Backend] = remote.open_remote(address, make_notes())
    return backend


def find_caller(settings: Settings, control: ControlDatabase, user: str | None) -> Caller:
    """Return the caller that a command on this machine acts for: ``user``, or the local user if None.

    Raises NotFoundError."""
    # With --user the operator acts for that user, and is recorded as the operator.
    management = Management.make(control, settings)
    return management.find_caller(user, is_operator=user is not None)


def open_local(
    stack: ExitStack, settings: Settings, control: ControlDatabase, caller: Caller
) -> Backend:
    """Return a backend on the data directory of this machine that acts for ``caller``.

    If other nodes keep the caller's calls, operations on calls are sent there."""
    local = LocalBackend(settings, control, caller)
    elsewhere: AbstractContextManager[Backend] | None = extensions.call().backend(
        data_dir=settings.data_dir, local=local, control=control, caller=caller, tell=make_notes()
    )
    return local if elsewhere is None else stack.enter_context(elsewhere)


def make_notes() -> Callable[[str], None]:
    """Return a function that prints a note on standard error, each text only once."""

    @cache
    def tell(note: str) -> None:
        click.echo(note, err=True)

    return tell


def find_remote(base_url: str | None, data_dir: str | None, user: str | None = None) -> str | None:
    """Return the address of the remote service to use, None for the data directory of this machine.

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


def find_base_url(base_url: str | None, data_dir: str | None) -> str:
    """Return the address of the pages of the service that a command acts on. Raises SettingsError,
    UsageError."""
    return find_remote(base_url, data_dir) or read_settings(data_dir=data_dir).base_url
