"""Redaction of credentials in what is stored of a request's address and headers.

The upstream API takes none in its query, but a client or a gateway may be told to send one there, under
any name and in any encoding. So only parameters that are known to hold none are kept as they are; of the
others the name is kept where it is a plain word, and never the value.

The headers that are stored, and run ids, are names, which a client may be told to put a credential in
place of. Of those that hold what looks like one nothing is kept.
"""

import re

REDACTED = "REDACTED"
MAX_CHARS = 2_000

_KNOWN = frozenset({"beta=true", "beta=false"})
_PARAMETER = re.compile(r"[^&;]+")
# A value without a name may end with the padding of base64, which looks like an empty value.
_NAMED = re.compile(r"([A-Za-z][A-Za-z_-]{0,31}=)(?!=*\Z).*", re.DOTALL)
# A key or token of the upstream, a service API key of ours, or any token after its scheme.
_CREDENTIAL = re.compile(r"sk-ant-|sk_[A-Za-z0-9_-]{43}|bearer\s+\S", re.IGNORECASE)


def drop_credential(value: str | None) -> str | None:
    """Return a value that is to be stored, or None where it holds what looks like a credential."""
    if value is None:
        return None
    # A search that ignores case takes long, and nearly no value has what each credential begins with.
    if value.isascii():
        lower = value.lower()
        if "sk" not in lower and "bearer" not in lower:
            return value
    return None if _CREDENTIAL.search(value) else value


def redact_query(target: str) -> str:
    """Return a path and its query, cut to MAX_CHARS, with unknown parameters' values replaced."""
    path, question_mark, query = target[:MAX_CHARS].partition("?")
    return (path + question_mark + _PARAMETER.sub(_redact, query))[:MAX_CHARS]


def _redact(parameter: re.Match[str]) -> str:
    if parameter[0] in _KNOWN:
        return parameter[0]
    named = _NAMED.fullmatch(parameter[0])
    return (named[1] if named else "") + REDACTED
