"""The Host header, and the rules for treating a request as one from this machine itself.

Such a request may read ``/metrics`` without a key, and sign in to the demo. A reverse proxy on this
machine would make every request look local. So a request whose headers show that it was forwarded
never counts as local. And if people reach the service by another address than a loopback one, which
needs a proxy or another listen address, no request counts as local."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from runtime.settings import Settings, is_loopback

_FORWARDED = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip"})
_FORWARDED_PREFIXES = ("x-forwarded", "x-original-", "x-cluster-", "x-envoy-", "cf-")


def is_local_request(settings: Settings, client: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request comes directly from a program on this machine.

    ``client`` is the peer address that the front door saw. Names of ``headers`` are lower-case."""
    host = parse_host(headers.get("host", ""))
    base_host = urlsplit(settings.base_url).hostname or ""
    return (
        is_loopback(base_host)
        and host is not None
        and is_loopback(host)
        and _is_loopback_address(client)
        and not any(map(_is_of_proxy, headers))
    )


def _is_of_proxy(header: str) -> bool:
    return header in _FORWARDED or header.startswith(_FORWARDED_PREFIXES)


def _is_loopback_address(client: str) -> bool:
    try:
        return ip_address(client).is_loopback
    except ValueError:
        return False


_AUTHORITY = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?"
)


def parse_host(text: str) -> str | None:
    """Return the host of a Host header in lower case, an IPv6 address without brackets.

    Return None for anything other than a plain ``host`` or ``host:port``."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535:
        return None
    return (match["ipv6"] or match["name"]).lower()
