"""Settings: environment variables, each also an option of ``taximeter up``.

This table is their only description; the options, the README's table and the checks come from it.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from email import headerregistry
from email.errors import MessageError
from email.utils import parseaddr
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote, urlsplit

from store.errors import InvalidInputError
from store.people import parse_email

type Streaming = Literal["live", "buffered"]

PREFIX = "TAXIMETER_"
# Not a setting: how the supervisor hands its children the mark of x-taximeter-client headers.
CLIENT_MARK_VARIABLE = "TAXIMETER_CLIENT_MARK"
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class SettingsError(Exception):
    """A setting that cannot be used. The message names the variable and says what to write."""


def is_loopback(host: str) -> bool:
    if host in LOOPBACK_HOSTS:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

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
class MailServer:
    """Whom mail is handed to. ``is_tls``: from the first byte, else by STARTTLS."""

    is_tls: bool
    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"{'smtps' if self.is_tls else 'smtp'}://{Address(self.host, self.port)}"


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


def _parse_smtp_url(text: str) -> MailServer | None:
    """What is wrong is said without quoting: there is a password in it."""
    if not text:
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(
            "the port is no number; in user and password write % as %25, : as %3A, / as %2F, @ as %40"
        ) from None
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or _has_more_than_host(text):
        raise ValueError("write smtp://USER:PASSWORD@HOST:587 or smtps://USER:PASSWORD@HOST")
    if bool(parts.username) != bool(parts.password):
        raise ValueError("write both user and password, or neither")
    is_tls = parts.scheme == "smtps"
    return MailServer(
        is_tls=is_tls,
        host=parts.hostname,
        port=port or (465 if is_tls else 587),
        user=unquote(parts.username, errors="strict") if parts.username else None,
        password=unquote(parts.password, errors="strict") if parts.password else None,
    )


def _has_more_than_host(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.path.strip("/") or parts.query or parts.fragment)


def _parse_sender(text: str) -> headerregistry.Address | None:
    if not text:
        return None
    name, address = parseaddr(text)
    try:
        parse_email(address)
        return headerregistry.Address(display_name=name, addr_spec=address)
    except (InvalidInputError, MessageError, ValueError) as error:
        raise ValueError("write an address, as in Taximeter <taximeter@example.org>") from error


def _parse_service_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write https://HOST, with a path if need be")
    if parts.query or parts.fragment or parts.username:
        raise ValueError("write no query, no fragment and no user")
    return text.rstrip("/")


def _parse_client_id(text: str) -> str | None:
    return text or None


def _parse_path(text: str) -> Path:
    return Path(text).expanduser()


def _parse_optional_path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. ``default`` is what one would write into the variable. A secret is never
    quoted; what is for the web process is not handed to the others."""

    name: str
    default: str
    parse: Callable[[str], Any]
    help: str
    is_secret: bool = False
    is_for_web: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


_PREFER = "Better as a variable than as an option, which everybody on the machine can read."

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
    Setting(
        "smtp_url",
        "",
        _parse_smtp_url,
        "The server that sends mail: smtp://USER:PASSWORD@HOST (STARTTLS, port 587) or smtps://…"
        f" (TLS, port 465). {_PREFER}",
        is_secret=True,
        is_for_web=True,
    ),
    Setting(
        "mail_from",
        "",
        _parse_sender,
        "Whom mail comes from, as in Taximeter <taximeter@example.org>.",
        is_for_web=True,
    ),
    Setting(
        "github_client_id",
        "",
        _parse_client_id,
        "The OAuth app for signing in with GitHub.",
        is_for_web=True,
    ),
    Setting(
        "github_client_secret",
        "",
        _parse_client_id,
        f"Its secret. {_PREFER}",
        is_secret=True,
        is_for_web=True,
    ),
    Setting(
        "github_url",
        "https://github.com",
        _parse_service_url,
        "Where people sign in; a GitHub Enterprise Server has its own.",
        is_for_web=True,
    ),
    Setting(
        "github_api_url",
        "https://api.github.com",
        _parse_service_url,
        "Where GitHub's API is.",
        is_for_web=True,
    ),
    Setting(
        "google_client_id",
        "",
        _parse_client_id,
        "The OAuth client for signing in with Google.",
        is_for_web=True,
    ),
    Setting(
        "google_client_secret",
        "",
        _parse_client_id,
        f"Its secret. {_PREFER}",
        is_secret=True,
        is_for_web=True,
    ),
    Setting(
        "google_issuer",
        "https://accounts.google.com",
        _parse_service_url,
        "Google, or another OpenID Connect provider.",
        is_for_web=True,
    ),
)
# Which settings are of no use without which others.
_BELONG_TOGETHER = (
    ("smtp_url", "mail_from"),
    ("github_client_id", "github_client_secret"),
    ("github_client_secret", "github_client_id"),
    ("google_client_id", "google_client_secret"),
    ("google_client_secret", "google_client_id"),
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
    smtp_url: MailServer | None
    mail_from: headerregistry.Address | None
    github_client_id: str | None
    github_client_secret: str | None = field(repr=False)
    github_url: str
    github_api_url: str
    google_client_id: str | None
    google_client_secret: str | None = field(repr=False)
    google_issuer: str

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
                if setting.is_secret:
                    raise SettingsError(f"{setting.variable}: {error}") from None
                raise SettingsError(f"{setting.variable}={text}: {error}") from error
        _check_together(values)
        return cls(**values)

    @property
    def is_local(self) -> bool:
        """Is the service for the people at this machine only, who see its terminal?"""
        host = urlsplit(self.base_url).hostname or ""
        return self.listen.is_loopback and is_loopback(host)

    def endpoint_url(self, slug: str) -> str:
        """What a client is configured with as its base URL."""
        return f"{self.base_url}/proxy/{slug}"

    @property
    def control_path(self) -> Path:
        return self.data_dir / "control.db"

    @property
    def spool_path(self) -> Path:
        return self.data_dir / "spool"


def without_web_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """For the processes that send no mail and sign nobody in: they need no such secrets."""
    for_web = {setting.variable for setting in SETTINGS if setting.is_for_web}
    return {name: text for name, text in environ.items() if name not in for_web}


def _check_together(values: Mapping[str, Any]) -> None:
    """Raises SettingsError."""
    variables = {setting.name: setting.variable for setting in SETTINGS}
    for name, other in _BELONG_TOGETHER:
        if values[name] is not None and values[other] is None:
            raise SettingsError(f"{variables[name]} is set, so {variables[other]} must be set too")
