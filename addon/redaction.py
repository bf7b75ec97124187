"""Keep credentials out of what is stored of a request's address.

The upstream API takes none in its query, but a client or a gateway may be told to send one there. What
looks like a credential, by its name or by its value, is replaced; everything else is kept as it is.
"""

import re
from urllib.parse import unquote_plus

REDACTED = "REDACTED"
MAX_CHARS = 2_000

_USUAL = ("", "beta=true")
_NAME = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|session|cookie|^code$|^sig|signature", re.I
)
_VALUE = re.compile(r"(?:^|[^a-z0-9])(?:[sprk]k[-_]|bearer |basic |ey[jw][a-z0-9]|gh[a-z]_)", re.I)
_PARAMETER = re.compile(r"[^&;]+")


def redact_query(target: str) -> str:
    """Return a path with its query, cut to MAX_CHARS, without values that look like credentials."""
    path, question_mark, query = target[:MAX_CHARS].partition("?")
    if query in _USUAL:
        return target
    return path + question_mark + _PARAMETER.sub(_redact, query)


def _redact(parameter: re.Match[str]) -> str:
    name, equals, value = parameter[0].partition("=")
    if not equals:  # who knows which of the two it is
        name, value = "", name
    if _NAME.search(unquote_plus(name)) or _VALUE.search(unquote_plus(value)):
        return name + equals + REDACTED
    return parameter[0]
