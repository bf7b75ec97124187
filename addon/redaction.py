"""Redaction of credentials in what is stored of a request's address and headers.

The upstream API takes none in its query, but a client or a gateway may be told to send one there, under
any name and in any encoding. So only parameters that are known to hold none are kept as they are; of the
others the name is kept where it is a plain word, and never the value.
"""

import re

REDACTED = "REDACTED"
MAX_CHARS = 2_000

_KNOWN = frozenset({"beta=true", "beta=false"})
_PARAMETER = re.compile(r"[^&;]+")
# A value without a name may end with the padding of base64, which looks like an empty value.
_NAMED = re.compile(r"([A-Za-z][A-Za-z_-]{0,31}=)(?!=*\Z).*", re.DOTALL)


def redact_query(target: str) -> str:
    """Return a path and its query, cut to MAX_CHARS, with unknown parameters' values replaced."""
    path, question_mark, query = target[:MAX_CHARS].partition("?")
    return (path + question_mark + _PARAMETER.sub(_redact, query))[:MAX_CHARS]


def _redact(parameter: re.Match[str]) -> str:
    if parameter[0] in _KNOWN:
        return parameter[0]
    named = _NAMED.fullmatch(parameter[0])
    return (named[1] if named else "") + REDACTED
