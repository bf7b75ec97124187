"""Commands on a service, local or remote: their shared options, and printing of responses."""

from collections.abc import Callable
from functools import wraps

import click

from manage.api.operation import Operation
from manage.cli.backend import Backend
from manage.cli.backend_choice import find_base_url, open_backend
from manage.cli.console import Command, explained, json_option, print_json, service_options
from store.json_models import RequestModel, ResponseModel


class Service:
    """The service that a command acts on. It also prints responses, as text or as JSON."""

    def __init__(
        self, backend: Backend, base_url: str | None, data_dir: str | None, *, as_json: bool
    ) -> None:
        """Use ``backend``, which was opened with the options ``base_url`` and ``data_dir``."""
        self.backend = backend
        self.data_dir = data_dir
        self.as_json = as_json
        self._base_url = base_url

    def call[Request: RequestModel, Response: ResponseModel](
        self, operation: Operation[Request, Response], id_: str = "", /, **fields: object
    ) -> Response:
        """Carry out an operation and return its response. See ``Backend.call``."""
        return self.backend.call(operation, id_, **fields)

    def find_pages_url(self) -> str:
        """Return the base URL of the pages of the service. Raises SettingsError."""
        return find_base_url(self._base_url, self.data_dir)

    def print(self, response: ResponseModel, text: str) -> None:
        """Print ``text``, or with ``--json`` the response in the JSON of the API."""
        if self.as_json:
            print_json(response.model_dump(mode="json", by_alias=True))
        else:
            click.echo(text)


def service_command(run: Callable[..., None]) -> Command:
    """Turn a function into a command. It gets a ``Service``, then the values of its own options.

    The command also has the options that choose the service, and ``--json``. Errors that the user can
    correct are one line, with exit status 1."""

    @wraps(run)
    def command(
        *,
        base_url: str | None,
        data_dir: str | None,
        as_json: bool,
        user: str | None = None,
        **options: object,
    ) -> None:
        with explained(), open_backend(base_url, data_dir, user) as backend:
            run(Service(backend, base_url, data_dir, as_json=as_json), **options)

    return service_options(json_option(command))
