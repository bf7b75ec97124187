"""The search for service API keys that were sent to a proxy endpoint by mistake.

They open the management API, so they must reach neither an upstream nor the log, whether sent as a
credential, in the target or in any other header. Values are looked up in ``control.db`` only if they
have the format of such a key; upstream credentials (``sk-ant-…``) never have it."""

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
    """Return the texts in a request's target and headers that have the format of a service API key.

    The target is also searched percent-decoded, and Basic credentials decoded. At most MAX_FOUND + 1
    are returned."""
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
    """Return the text of Basic credentials, empty if they are not valid."""
    plain = encoded.replace(b"-", b"+").replace(b"_", b"/")
    try:
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4))
    except binascii.Error:
        return b""
