"""The address of the client behind any trusted reverse proxies."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from mitmproxy import http

from addon.headers import index_of


def find_client_address(
    peer: str, forwarded_for: str, trusted: Sequence[IPv4Network | IPv6Network]
) -> str:
    """Return the address of the client: the last one that is not a trusted proxy.

    ``forwarded_for`` holds the values of all ``x-forwarded-for`` headers; only entries that a trusted
    proxy wrote are believed."""
    hops = [hop.strip() for hop in forwarded_for.split(",")] if forwarded_for else []
    address = unmap(peer)
    while hops and is_in(address, trusted):
        candidate = hops.pop()
        try:
            ip_address(candidate)
        except ValueError:
            break
        address = unmap(candidate)
    return address


def read_client_address(flow: http.HTTPFlow, trusted: Sequence[IPv4Network | IPv6Network]) -> str:
    """Return the address of the client that sent a request."""
    forwarded_for = index_of(flow.request.headers).get(b"x-forwarded-for", b"").decode("latin-1")
    return find_client_address(flow.client_conn.peername[0], forwarded_for, trusted)


def unmap(address: str) -> str:
    """Return an IPv4-mapped IPv6 address as IPv4, and any other address unchanged.

    A socket that listens on ``::`` reports IPv4 peers as ``::ffff:203.0.113.9``; all of those would be
    in one IPv6 network, and none in an IPv4 network."""
    if ":" not in address:
        return address
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return address if mapped is None else str(mapped)


def is_in(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Return whether an address is in one of these networks."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return any(ip in network for network in networks)
