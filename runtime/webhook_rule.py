"""The rule for webhooks: which addresses this service sends to on behalf of an organisation.

Whoever sets a webhook chooses where the service connects to, from inside its network. So it connects to
public addresses only, and to networks that the operator names. What a name resolves to is checked when a
message is sent, since that may change at any moment (``dashboard.budgets.webhook_client``).
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

type Network = ipaddress.IPv4Network | ipaddress.IPv6Network
type IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_URL_LENGTH = 2000
# Addresses in which another one is written, which a gateway may connect to.
_TRANSLATED = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)
_HOW = "write the address of a webhook as https://host/path"


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """Allows public addresses, and those of ``networks``. ``allows_loopback``: those of this machine too."""

    networks: Sequence[Network] = ()
    allows_loopback: bool = False

    def check(self, url: str) -> None:
        """Check the address of a webhook as it is written. Raises ValueError, which says what to do."""
        if len(url) > MAX_URL_LENGTH or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError(
                f"the address of a webhook has up to {MAX_URL_LENGTH} printable ASCII characters"
            )
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(_HOW) from error
        if not host or parts.scheme not in ("http", "https") or parts.username is not None:
            raise ValueError(_HOW)
        if parts.fragment:
            raise ValueError("the address of a webhook has no part after a #")
        literal = _parse_address(host)
        is_here = host == "localhost" or (literal is not None and literal.is_loopback)
        if parts.scheme == "http" and not is_here:
            raise ValueError("a webhook needs https: its address begins with https://")
        if host == "localhost":
            literal = ipaddress.IPv4Address("127.0.0.1")
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
    """Return why no message is sent to a host."""
    return (
        f"{host} is not a public address; the operator can allow its network"
        " (TAXIMETER_WEBHOOK_NETWORKS)"
    )


def _is_public(address: IpAddress) -> bool:
    if any(address in network for network in _TRANSLATED):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _parse_address(host: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
