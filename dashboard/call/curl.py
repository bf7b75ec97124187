"""A curl command that repeats the request of a call."""

import shlex

from metering.entry import UsageLogEntry
from runtime.safe_text import reveal

MAX_PASTED_BYTES = 4_000
USUAL_PATH, USUAL_VERSION = "/v1/messages", "2023-06-01"


def make_curl(
    endpoint_url: str, vendor: str, entry: UsageLogEntry, body: bytes | None, file_name: str
) -> str:
    """Return a command that sends the request again to the same path, with the same version and betas.

    A body that is long, or that a shell or a terminal might take for something else, comes from the
    file as which it is downloaded. An entry from before paths were kept gets the usual ones."""
    path, version = find_target(entry)
    lines = [
        f"curl {shlex.quote(reveal(endpoint_url + path))}",
        '-H "x-api-key: $ANTHROPIC_API_KEY"',
        *_header(f"{vendor}-version", version),
        *_header(f"{vendor}-beta", entry.betas),
        "-H 'content-type: application/json'",
    ]
    pasted = None if body is None else _as_argument(body)
    lines.append(f"--data-binary @{file_name}" if pasted is None else f"--data-raw {pasted}")
    return " \\\n  ".join(lines)


def find_target(entry: UsageLogEntry) -> tuple[str, str | None]:
    """Return path and API version of a call, the usual ones for an entry from before paths were kept."""
    if entry.path_query is None:
        return USUAL_PATH, USUAL_VERSION
    return entry.path_query, entry.api_version


def _header(name: str, value: str | None) -> list[str]:
    return [] if value is None else [f"-H {shlex.quote(reveal(f'{name}: {value}'))}"]


def _as_argument(body: bytes) -> str | None:
    """Return the body quoted for a shell, or None if it has to come from a file."""
    if len(body) > MAX_PASTED_BYTES:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return shlex.quote(text) if reveal(text) == text and "\t" not in text else None
