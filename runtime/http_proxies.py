"""HTTP proxies for connections to other hosts, as environment variables or a setting name them.

Programs agree about the variables, but not about each detail. Here a lower-case variable has
precedence, ``ALL_PROXY`` is for schemes without their own variable, and an entry of ``NO_PROXY`` is a
host with its subdomains, an address or a network, each optionally with a port, or ``*``."""

import base64
import ipaddress
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

PROXY_VARIABLES = ("https_proxy", "http_proxy", "all_proxy")
LOOPBACK = ("localhost", "127.0.0.1", "::1")

type Scheme = Literal["http", "https"]

_SCHEMES: Mapping[str, Scheme] = {"http": "http", "https": "https"}
_DEFAULT_PORTS: Mapping[Scheme, int] = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProxy:
    """A proxy that opens connections to other hosts (``CONNECT``). ``scheme``: http, or https for TLS to
    the proxy."""

    scheme: Scheme
    host: str
    port: int
    authorization: bytes | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_http_proxy(text: str) -> HttpProxy | None:
    """Return the proxy for a URL like ``http://USER:PASSWORD@HOST:3128``, None for empty text.

    Raises ValueError, whose message quotes nothing of the text."""
    if not text:
        return None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise ValueError("its port is not a number") from None
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("write http://HOST:PORT or https://HOST:PORT, perhaps with USER:PASSWORD@")
    authorization = None
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = b"Basic " + base64.b64encode(pair.encode())
    return HttpProxy(
        scheme=scheme,
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[scheme],
        authorization=authorization,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProxies:
    """The proxy of an environment for https addresses, and the hosts that are exempt from it."""

    text: str = ""
    exempt: Sequence[str] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Return the proxy settings in environment variables."""
        return cls(
            text=_read(environ, "https_proxy") or _read(environ, "all_proxy"),
            exempt=tuple(filter(None, map(str.strip, _read(environ, "no_proxy").split(",")))),
        )

    def find(self, host: str, port: int) -> HttpProxy | None:
        """Return the proxy for a host, None for a direct connection.

        Raises ValueError for a proxy of another kind, such as SOCKS."""
        if any(covers(entry, host, port) for entry in (*self.exempt, *LOOPBACK)):
            return None
        return parse_http_proxy(self.text)


def exempt_loopback(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exempt loopback from a proxy, empty if no proxy is set.

    Other exemptions are kept."""
    if not any(_read(environ, name) for name in PROXY_VARIABLES):
        return {}
    exempt = ",".join(dict.fromkeys((*UserProxies.of(environ).exempt, *LOOPBACK)))
    return dict.fromkeys(("NO_PROXY", "no_proxy"), exempt)


def _read(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def covers(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of ``NO_PROXY`` matches a host and port."""
    entry, host = entry.strip().lower(), host.lower()
    if entry == "*":
        return True
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdigit() and (":" not in name or name.endswith("]")):
        if int(digits) != port:
            return False
        entry = name
    entry = entry.removeprefix("[").removesuffix("]")
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    suffix = entry.removeprefix("*").removeprefix(".")
    return bool(suffix) and (host == suffix or host.endswith(f".{suffix}"))
