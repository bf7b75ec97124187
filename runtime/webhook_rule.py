"""The rule for webhooks: the addresses to which this service sends on behalf of an organisation.

The person who sets a webhook chooses where the service connects to, from inside its network. So it
connects only to public addresses, and to networks that the operator names. The address that a name
resolves to is checked when a message is sent, since it may change
(``dashboard.budgets.webhook_client``)."""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

type Network = ipaddress.IPv4Network | ipaddress.IPv6Network
type IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL_LENGTH = 2000
_INNER: Sequence[Network] = (
    # Addresses in which another one is written, which a tunnel may connect to.
    *map(ipaddress.IPv6Network, ("2002::/16", "2001::/32")),
    # Public by their number, to some versions of Python, and inside of machines of Oracle and Azure.
    *map(ipaddress.IPv4Network, ("192.0.0.0/24", "168.63.129.16/32")),
)
# A host without IPv4 reaches an IPv4 address under this one, which ends with it (RFC 6052).
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# All other addresses of IPv6 are of a machine, a link, a site, or not assigned.
_ASSIGNED = ipaddress.IPv6Network("2000::/3")
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*", re.ASCII)
# The URL standard reads a host whose last part is like this as an IPv4 address, in any of its old spellings.
_NUMBER_AT_THE_END = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)", re.ASCII)
_HOW = "write the address of a webhook as https://host/path"


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """Allows public addresses and those in ``networks``; with ``allows_loopback`` also this machine's."""

    networks: Sequence[Network] = ()
    allows_loopback: bool = False

    def check(self, url: str) -> None:
        """Raise ValueError, which says what to do, if the URL of a webhook is not allowed.

        Names are not resolved here."""
        if len(url) > MAX_URL_LENGTH or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError(
                f"the address of a webhook has up to {MAX_URL_LENGTH} printable ASCII characters"
            )
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(_HOW) from error
        if not host or parts.scheme not in ("http", "https") or parts.username is not None:
            raise ValueError(_HOW)
        if port == 0 or ("[" in parts.netloc and ":" not in host):
            raise ValueError(_HOW)
        if parts.fragment:
            raise ValueError("the address of a webhook has no part after a #")
        literal = _read_host(host)
        is_here = host == "localhost" or (literal is not None and literal.is_loopback)
        if parts.scheme == "http" and not is_here:
            raise ValueError("a webhook needs https: its address begins with https://")
        if literal is not None and not self.allows(literal):
            raise ValueError(explain_refusal(host))

    def allows(self, address: IpAddress) -> bool:
        """Return whether messages may be sent to an address."""
        plain = getattr(address, "ipv4_mapped", None) or address
        if any(plain in network for network in self.networks):
            return True
        if plain.is_loopback:
            return self.allows_loopback
        return _is_public(plain)


PUBLIC_ONLY = WebhookRule()


def explain_refusal(host: str) -> str:
    """Return the reason why no message is sent to a host."""
    return (
        f"{host} is not a public address; the operator can allow its network"
        " (TAXIMETER_WEBHOOK_NETWORKS)"
    )


def _is_public(address: IpAddress) -> bool:
    if address in _NAT64:
        return _is_public(ipaddress.IPv4Address(address.packed[-4:]))
    if any(address in network for network in _INNER):
        return False
    if address.version == 6 and address not in _ASSIGNED:
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _read_host(host: str) -> IpAddress | None:
    """Return the IP address that ``host`` denotes, None for a name.

    Raises ValueError for text that is neither, which resolvers treat in different ways."""
    name = host.removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    if ":" in host or _NUMBER_AT_THE_END.fullmatch(name):
        try:
            address = ipaddress.ip_address(host)
        except ValueError as error:
            raise ValueError(f"{_HOW}, and an IPv4 address as four decimal numbers") from error
        if getattr(address, "scope_id", None):
            raise ValueError(_HOW)
        return address
    if not _NAME.fullmatch(name):
        raise ValueError(_HOW)
    return None
