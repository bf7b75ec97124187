"""A command to copy that sends the request of a call again."""

import shlex

from dashboard.call.shown_text import visible

MAX_PASTED_BYTES = 4_000


def make_curl(url: str, body: bytes | None, file_name: str) -> str:
    """A command that sends the request again. A body that is long, or that a shell or a terminal might
    take for something else, comes from the file as which it is downloaded."""
    lines = [
        f"curl {shlex.quote(visible(url))}",
        '-H "x-api-key: $ANTHROPIC_API_KEY"',
        "-H 'anthropic-version: 2023-06-01'",
        "-H 'content-type: application/json'",
    ]
    pasted = None if body is None else _as_argument(body)
    lines.append(f"--data-binary @{file_name}" if pasted is None else f"--data-raw {pasted}")
    return " \\\n  ".join(lines)


def _as_argument(body: bytes) -> str | None:
    """Quoted for a shell; None for what is better not pasted."""
    if len(body) > MAX_PASTED_BYTES:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return shlex.quote(text) if visible(text) == text and "\t" not in text else None
