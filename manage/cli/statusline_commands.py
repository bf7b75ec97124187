"""``taximeter statusline``: the status line that Claude Code displays below a session.

The installed command is a line for ``/bin/sh`` that posts to the service with curl, since this program
takes a fifth of a second to start."""

import shlex
import sys
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import click

from manage.cli.claude_settings import find_settings, read_settings_file, write_settings_file
from manage.cli.console import data_dir_option, explained, json_option, print_json, read_settings
from metering.status_line import PARTS, parse_parts
from runtime.safe_text import terminal_line
from runtime.settings import LOOPBACK_HOSTS, SettingsError

KEY = "statusLine"
PATIENCE_S = 0.3
REFRESH_S = 10  # for what counts down
MAX_BYTES = 64 << 10
_BEGIN = "/bin/sh -c 'curl -q "  # of the commands that are ours


def _check_parts(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> str | None:
    """Return the value of ``--format`` unchanged. Raises BadParameter for an unknown part."""
    try:
        return (
            value if value is None else ",".join(sorted(parse_parts(value), key=list(PARTS).index))
        )
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option("--install", is_flag=True, help="Write the setting of Claude Code.")
@click.option("--force", is_flag=True, help="With --install: replace another status line.")
@click.option(
    "--format", "parts", metavar="PARTS", callback=_check_parts,
    help=f"What to say, separated by commas.  [default: {','.join(PARTS)}]",
)  # fmt: skip
@data_dir_option
@json_option
def statusline(
    install: bool, force: bool, parts: str | None, data_dir: str | None, as_json: bool
) -> None:
    """Print the status line of a session of Claude Code.

    The input is the JSON that Claude Code gives it. The output is one line: what the session cost, with its
    subagents and what is estimated of it; how long its prompt cache lasts, and what its last cache break
    cost; how much is used of the windows of a subscription; what is left of budgets. Nothing is printed
    if no service runs on this machine, and nothing of the input is stored.

    --install writes statusLine in settings.json of Claude Code (~/.claude or CLAUDE_CONFIG_DIR): a line
    for /bin/sh that posts to the service by curl, which takes some 10 ms. Other settings stay, and so
    does another status line without --force.

    \b
    Examples:
      taximeter statusline --install
      taximeter statusline --install --format cost,limits
    """
    if force and not install:
        raise click.UsageError("--force goes with --install")
    with explained():
        address = _find_address(data_dir, parts)
        if install:
            _install(address, force=force, as_json=as_json)
            return
    line = _ask(address)
    if as_json:
        print_json({"line": line})
    elif line:
        click.echo(line)


def _find_address(data_dir: str | None, parts: str | None) -> str:
    """Return the URL of the status line, with its parts. Raises SettingsError if it is not a loopback
    address."""
    base_url = read_settings(data_dir=data_dir).base_url
    if urlsplit(base_url).hostname not in LOOPBACK_HOSTS:
        raise SettingsError(
            f"the status line is for programs on the machine of the service, whose address is {base_url}:"
            " TAXIMETER_BASE_URL has to be a loopback address"
        )
    query = f"?{urlencode({'parts': parts}, safe=',')}" if parts else ""
    return f"{base_url}/statusline{query}"


def _ask(address: str) -> str:
    """Post standard input to ``address``; return the status line, empty if there is no response."""
    body = sys.stdin.buffer.read(MAX_BYTES + 1)
    url = urlsplit(address)
    connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
    with (
        suppress(OSError, HTTPException),
        closing(connect(url.hostname or "", url.port, timeout=PATIENCE_S)) as connection,
    ):
        connection.request("POST", urlunsplit(("", "", url.path, url.query, "")), body)
        response = connection.getresponse()
        if response.status == 200:
            return terminal_line(response.read(MAX_BYTES).decode(errors="replace").strip())
    return ""


def make_command(address: str) -> str:
    """Return the shell command that Claude Code runs. curl ignores its settings files and HTTP proxies
    there."""
    curl = (
        f'curl -q -sf -m {PATIENCE_S} --noproxy "*" --data-binary @- "{address}" 2>/dev/null || :'
    )
    return f"/bin/sh -c {shlex.quote(curl)}"


def _install(address: str, *, force: bool, as_json: bool) -> None:
    """Write ``statusLine`` into the user's settings of Claude Code. Raises ClickException, OSError."""
    path = find_settings()
    settings = read_settings_file(path)
    before = settings.get(KEY)
    if before is not None and not force and not _is_ours(before):
        raise click.ClickException(
            f"{terminal_line(str(path))} has another status line; --force replaces it"
        )
    setting = {"type": "command", "command": make_command(address), "refreshInterval": REFRESH_S}
    write_settings_file(path, settings | {KEY: setting})
    if as_json:
        print_json({"path": str(path), KEY: setting})
    else:
        click.echo(f"Wrote {KEY} in {terminal_line(str(path))}: {setting['command']}")


def _is_ours(setting: Any) -> bool:
    command = setting.get("command") if isinstance(setting, dict) else None
    return isinstance(command, str) and command.startswith(_BEGIN) and "/statusline" in command
