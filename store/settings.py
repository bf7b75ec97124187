"""Settings: environment variables, each also an option of ``taximeter up``.

This table is their only description; the options, the README's table and the checks come from it.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

type Streaming = Literal["live", "buffered"]

PREFIX = "TAXIMETER_"
# Not a setting: how the supervisor hands its children the mark of x-taximeter-client headers.
CLIENT_MARK_VARIABLE = "TAXIMETER_CLIENT_MARK"
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class SettingsError(Exception):
    """A setting that cannot be used. The message names the variable and says what to write."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS or self.host.startswith("127.")

    @property
    def connectable(self) -> "Address":
        """The same, or loopback where this listens on every interface."""
        return Address("127.0.0.1", self.port) if self.host in ("0.0.0.0", "::") else self  # noqa: S104


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where requests go. ``prefix`` is the path in front of theirs, without a slash at its end."""

    scheme: str
    host: str
    port: int
    prefix: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        default_port = 443 if self.scheme == "https" else 80
        return host if self.port == default_port else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds: until TCP and TLS stand, until the first byte of the answer, between two bytes."""

    connect: float = 10
    first_byte: float = 600
    idle: float = 600

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name):g}" for field in fields(self))


def _parse_listen(text: str) -> Address:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError("write HOST:PORT, for example 127.0.0.1:8080")
    return Address(host, int(port))


def _parse_base_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write http://HOST:PORT or https://HOST")
    if parts.path.rstrip("/") or parts.query or parts.fragment or parts.username:
        raise ValueError("write only scheme, host and port: no path, no query, no user")
    return f"{parts.scheme}://{parts.netloc}"


def _parse_upstream(text: str) -> Upstream:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write https://HOST or http://HOST:PORT, with a path prefix if need be")
    if parts.query or parts.fragment or parts.username:
        raise ValueError("an upstream has no query, fragment or user")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Upstream(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))


def _parse_vendor(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text):
        raise ValueError("write a lowercase name such as anthropic")
    return text


def _parse_streaming(text: str) -> Streaming:
    if text == "live":
        return "live"
    if text == "buffered":
        return "buffered"
    raise ValueError("write live or buffered")


def _parse_timeouts(text: str) -> Timeouts:
    known = {field.name for field in fields(Timeouts)}
    values: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, seconds = part.partition("=")
        if name not in known:
            raise ValueError(
                f"write pairs of {', '.join(sorted(known))}, as in connect=10,idle=600"
            )
        values[name] = float(seconds)
        if not 0 < values[name] <= 86400:
            raise ValueError(f"{name} must lie between 0 and 86400 seconds")
    return Timeouts(**values)


def _parse_header_prefixes(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if not re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]+", name):
            raise ValueError(f"{name!r} is no header prefix; write for example x-team-,x-trace-id")
    return names


def _parse_networks(
    text: str,
) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(
        ipaddress.ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip()
    )


def _parse_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 3600:
        raise ValueError("write seconds, from 0 to 3600")
    return seconds


def parse_size(text: str) -> int:
    """Bytes of ``500MB`` or ``1GB`` (powers of 1000). Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip().upper())
    if not match:
        raise ValueError("write a size such as 500MB or 1GB")
    return int(float(match[1]) * 1000 ** " KMGT".index(match[2] or " "))


def _parse_path(text: str) -> Path:
    return Path(text).expanduser()


def _parse_optional_path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. ``default`` is what one would write into the variable."""

    name: str
    default: str
    parse: Callable[[str], Any]
    help: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


SETTINGS = (
    Setting("listen", "127.0.0.1:8080", _parse_listen, "Address and port of the front door."),
    Setting(
        "base_url",
        "",
        _parse_base_url,
        "The address people use, without a path. Default: http:// and the listen address.",
    ),
    Setting(
        "upstream_url",
        "https://api.anthropic.com",
        _parse_upstream,
        "The upstream messages API; may carry a path prefix; http is allowed.",
    ),
    Setting("vendor", "anthropic", _parse_vendor, "Headers named <vendor>-… are forwarded."),
    Setting(
        "data_dir", "./data", _parse_path, "Where everything is kept; created readable by you only."
    ),
    Setting(
        "streaming",
        "live",
        _parse_streaming,
        "live: chunks go on as they arrive. buffered: the answer is returned once it is whole.",
    ),
    Setting(
        "upstream_timeout",
        str(Timeouts()),
        _parse_timeouts,
        "Seconds to wait for the upstream: connect, first_byte, idle.",
    ),
    Setting(
        "forward_headers",
        "",
        _parse_header_prefixes,
        "More request header prefixes to forward, separated by commas.",
    ),
    Setting(
        "trusted_proxies",
        "",
        _parse_networks,
        "Networks whose x-forwarded-for is believed, separated by commas.",
    ),
    Setting(
        "drain_seconds",
        "25",
        _parse_seconds,
        "How long streams in flight may go on after a stop was asked for.",
    ),
    Setting(
        "disk_reserve",
        "1GB",
        parse_size,
        "Below this much free disk, request bodies are no longer kept.",
    ),
    Setting(
        "prices",
        "",
        _parse_optional_path,
        "A file of prices that override the built-in list.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    listen: Address
    base_url: str
    upstream_url: Upstream
    vendor: str
    data_dir: Path
    streaming: Streaming
    upstream_timeout: Timeouts
    forward_headers: tuple[str, ...]
    trusted_proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    drain_seconds: float
    disk_reserve: int
    prices: Path | None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read every setting. Raises SettingsError for the first that cannot be used."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for setting in SETTINGS:
            text = environ.get(setting.variable, "").strip() or setting.default
            if setting.name == "base_url" and not text:
                text = f"http://{values['listen'].connectable}"
            try:
                values[setting.name] = setting.parse(text)
            except ValueError as error:
                raise SettingsError(f"{setting.variable}={text}: {error}") from error
        return cls(**values)

    def endpoint_url(self, slug: str) -> str:
        """What a client is configured with as its base URL."""
        return f"{self.base_url}/proxy/{slug}"

    @property
    def control_path(self) -> Path:
        return self.data_dir / "control.db"

    @property
    def spool_path(self) -> Path:
        return self.data_dir / "spool"
