"""Addresses as they may be printed and written down: without what may be a credential in them."""

import re

_HIDDEN = "***"
_AFTER_PLACE = re.compile("[?#]")


def hide_credentials(text: str) -> str:
    """Return an address without its user, password, query and fragment. A text that is not an address
    comes back without what stands before its last ``@``, and behind ``?`` or ``#``."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "", text
    _, at, place = rest.rpartition("@")
    return scheme + mark + (_HIDDEN + at if at else "") + _AFTER_PLACE.split(place, maxsplit=1)[0]
