"""The rules by which a request comes from this machine itself.

Such a request may read ``/metrics`` without a key, and sign in to the demo. A reverse proxy on this machine
would make every request look like that. So a request that was forwarded never counts as local, by its
headers; and where people reach the service by another address than a loopback one, which needs a proxy or
another listening address, nobody is trusted for being local.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from runtime.authority import parse_host
from runtime.settings import Settings, is_loopback

_FORWARDED = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip"})
_FORWARDED_PREFIXES = ("x-forwarded", "x-original-", "x-cluster-", "x-envoy-", "cf-")


def is_local_request(settings: Settings, client: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from a program on this machine, and not through another one.

    ``client`` is the address that the front door saw. Names of headers are lower-case."""
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
