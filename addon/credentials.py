"""The search for service API keys that were sent to a proxy endpoint by mistake.

They open the management API, so they must go neither to an upstream nor into the log: not as a
credential, and not in the target or any other header, where a client may be told to put one. Values
are looked up in ``control.db`` only when they have the format of one; upstream credentials
(``sk-ant-…``) never do.
"""

import binascii
import re
from itertools import chain, islice
from urllib.parse import unquote_to_bytes

from addon.headers import Fields
from store.control.api_keys import RAW_KEY

# Nobody sends more by mistake, and each is looked up.
MAX_FOUND = 100

_MARK = RAW_KEY.pattern.partition("[")[0].encode()
# A lookahead finds those that overlap: what surrounds a key is as good as any character of one.
_SERVICE_KEY = re.compile(rb"(?=(" + RAW_KEY.pattern.encode() + rb"))")
_BASIC = re.compile(rb"basic[ \t]+([A-Za-z0-9+/_-]+)", re.IGNORECASE)


def find_service_keys(target: str, fields: Fields) -> list[str]:
    """Return what has the format of a service API key in a request's target and headers. That
    includes a percent-encoded target and Basic credentials. It is never more than MAX_FOUND + 1."""
    text = b"\n".join(chain((target.encode("latin-1", "replace"),), *fields))
    if "%" in target:
        text += b"\n" + unquote_to_bytes(target)
    if b"basic" in text.lower():
        found = [each[1] for _, value in fields for each in _BASIC.finditer(value)]
        text = b"\n".join((text, *map(_decode, found)))
    if _MARK not in text:
        return []
    return [found[1].decode() for found in islice(_SERVICE_KEY.finditer(text), MAX_FOUND + 1)]


def _decode(encoded: bytes) -> bytes:
    """Return the text of Basic credentials, or nothing where there is none."""
    plain = encoded.replace(b"-", b"+").replace(b"_", b"/")
    try:
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4))
    except binascii.Error:
        return b""
