"""Who is calling: the address of the client behind any trusted reverse proxies."""

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address


def client_address(
    peer: str, forwarded_for: Sequence[str], trusted: Sequence[IPv4Network | IPv6Network]
) -> str:
    """The last address that is not one of our own proxies. ``forwarded_for`` holds the values of
    every ``x-forwarded-for`` header; it is believed only as far as trusted hands wrote it."""
    hops = [hop.strip() for value in forwarded_for for hop in value.split(",")]
    address = peer
    while hops and _is_trusted(address, trusted):
        candidate = hops.pop()
        try:
            ip_address(candidate)
        except ValueError:
            break
        address = candidate
    return address


def _is_trusted(address: str, trusted: Sequence[IPv4Network | IPv6Network]) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return any(ip in network for network in trusted)
