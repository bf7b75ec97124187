"""The Host header: a name or an address, with or without a port."""

import re

_AUTHORITY = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?"
)


def parse_host(text: str) -> str | None:
    """Return the host in lower case, an IPv6 address without brackets. None for anything else than
    a plain ``host`` or ``host:port``."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535:
        return None
    return (match["ipv6"] or match["name"]).lower()
