"""``taximeter mcp``: the server, on standard input and output."""

from importlib import import_module
from types import ModuleType

import click

from manage.cli.backend_choice import open_backend
from manage.cli.console import explained, service_options
from runtime.installing import explain_missing


@click.command()
@service_options
def mcp(base_url: str | None, data_dir: str | None) -> None:
    """Serve what was recorded to agents, over MCP.

    It speaks the Model Context Protocol on standard input and output, so a client starts it. Its six
    tools only read: spend, sessions, session, call, limits, search. Responses are short, and texts of
    recorded calls are marked as quoted. The calls are those of the local user on this machine, or with
    --base-url and TAXIMETER_API_KEY those of a service elsewhere. It needs the extra mcp.

    \b
    Examples:
      claude mcp add taximeter -- taximeter mcp
      claude mcp add taximeter -- taximeter mcp --data-dir /srv/taximeter
    """
    server = _load_server()
    with explained(), open_backend(base_url, data_dir):
        pass  # so that a wrong key or directory is said here, and not in each response
    server.make_server(lambda: open_backend(base_url, data_dir)).run("stdio")


def _load_server() -> ModuleType:
    """Return the module with the server. Raises ClickException if its library is missing."""
    try:
        return import_module("extensions.mcp.server")
    except ImportError as error:
        raise click.ClickException(explain_missing("taximeter mcp", "mcp")) from error
