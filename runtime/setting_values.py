"""The values of settings, each with the parser for its text.

A parser raises ValueError, whose message says what to write instead. It quotes nothing of the text,
which may hold a password by mistake."""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from email.errors import MessageError
from email.utils import parseaddr
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from runtime.email_addresses import parse_email
from runtime.errors import InvalidInputError
from runtime.json_lines import LogFormat

if TYPE_CHECKING:
    from email import headerregistry

type Streaming = Literal["live", "buffered"]
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network

FIRST_PARTY_URL = "https://api.anthropic.com"
MOST_DEFAULT_WORKERS = 4
ENCODED = "in user and password write % as %25, : as %3A, / as %2F, @ as %40"
# Of the upstream that calls go to where an endpoint has none of its own.
SERVICE_UPSTREAM = "service"
UPSTREAM_NAME = re.compile(r"(?=.{1,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


def is_loopback(host: str) -> bool:
    """Return whether a host is localhost or a loopback address.

    Other names count as other machines."""
    if host in LOOPBACK_HOSTS:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen on or connect to. An IPv6 host has no brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def connectable(self) -> "Address":
        """Return the address to connect to: loopback if this address means every interface."""
        return Address("127.0.0.1", self.port) if self.host in ("0.0.0.0", "::") else self  # noqa: S104


@dataclass(frozen=True, slots=True)
class Upstream:
    """The upstream of requests. ``prefix`` is put before their paths, and has no slash at its end."""

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

    @property
    def is_first_party(self) -> bool:
        """Return whether this is the vendor's own API, the default of clients."""
        return str(self) == FIRST_PARTY_URL

    def __str__(self) -> str:
        return self.origin + self.prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The server for sending mail. ``is_tls``: TLS from the first byte, otherwise STARTTLS."""

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
    """Timeouts in seconds.

    They are for the TCP and TLS connection, for the first byte of the response, and between two bytes."""

    connect: float = 10
    first_byte: float = 600
    idle: float = 600

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name):g}" for field in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class MailLimits:
    """The maximum numbers of sign-in mails in a quarter of an hour.

    They are for all mails, for one IPv6 network (/48), for one client, and for one mailbox."""

    total: int = 300
    network: int = 60
    client: int = 20
    mailbox: int = 5

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


def parse_listen(text: str) -> Address:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[\w.:%-]+", host) or not port.isdigit() or int(port) > 65535:
        raise ValueError("write HOST:PORT, for example 127.0.0.1:8080")
    return Address(host, int(port))


def parse_base_url(text: str) -> str:
    """Return scheme, host and port of a URL, without a slash at the end. Raises ValueError."""
    parts = _split_address(text, "write http://HOST:PORT or https://HOST")
    if parts.path.rstrip("/"):
        raise ValueError("write only scheme, host and port: no path")
    return f"{parts.scheme}://{parts.netloc}"


def parse_upstream(text: str) -> Upstream:
    parts = _split_address(
        text, "write https://HOST or http://HOST:PORT, with a path prefix if necessary"
    )
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Upstream(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))


def parse_upstreams(text: str) -> Mapping[str, Upstream]:
    """Return upstreams by name, from a text like ``eu=https://eu.example.org,foundry=https://…``.

    Raises ValueError."""
    found: dict[str, Upstream] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, url = part.partition("=")
        name = name.strip()
        if not equals or not UPSTREAM_NAME.fullmatch(name) or name == SERVICE_UPSTREAM:
            raise ValueError(
                "write NAME=URL, separated by commas, as in eu=https://eu.example.org; a name has 1 to 63"
                f" lowercase letters, digits and single hyphens, and is not {SERVICE_UPSTREAM!r}"
            )
        if name in found:
            raise ValueError("write each name once")
        found[name] = parse_upstream(url.strip())
    return found


def _split_address(text: str, advice: str) -> SplitResult:
    """Return the parts of an http or https URL that has only host, port and path. Raises ValueError."""
    parts = _split(text, advice)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(advice)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("write no query, no fragment, no user and no password")
    return parts


def _split(text: str, advice: str) -> SplitResult:
    """Return the parts of a URL. Raises ValueError with ``advice``, since the library's errors quote
    passwords."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError(advice) from None
    return parts


def parse_vendor(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text):
        raise ValueError("write a lowercase name such as anthropic")
    return text


def parse_streaming(text: str) -> Streaming:
    return _choose(text, "live", "buffered")


def parse_log_format(text: str) -> LogFormat:
    return _choose(text, "text", "json")


def _choose[Word: str](text: str, *words: Word) -> Word:
    """Return ``text`` if it is one of ``words``. Raises ValueError."""
    for word in words:
        if text == word:
            return word
    raise ValueError(f"write {' or '.join(words)}")


def parse_timeouts(text: str) -> Timeouts:
    values = {
        name: _parse_number(seconds) for name, seconds in _parse_pairs(text, Timeouts).items()
    }
    for name, seconds in values.items():
        if not 0 < seconds <= 86400:
            raise ValueError(f"{name} must be between 0 and 86400 seconds")
    return Timeouts(**values)


def parse_mail_limits(text: str) -> MailLimits:
    pairs = _parse_pairs(text, MailLimits)
    return MailLimits(**{name: parse_count(count) for name, count in pairs.items()})


def parse_switch(text: str) -> bool:
    if text.lower() not in ("on", "off"):
        raise ValueError("write on or off")
    return text.lower() == "on"


def parse_count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError("write a number from 1 to 999999999")
    return int(text)


def _parse_pairs(text: str, kind: type[Timeouts | MailLimits]) -> dict[str, str]:
    """Return texts by the field names of ``kind``, from a text like ``connect=10,idle=600``."""
    known = [field.name for field in fields(kind)]
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise ValueError(f"write pairs of {', '.join(known)}, as in {kind()}")
        pairs[name] = value.strip()
    return pairs


def parse_header_prefixes(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if not re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]+", name):
            raise ValueError("write prefixes of header names, for example x-team-,x-trace-id")
    return names


def parse_origins(text: str) -> tuple[str, ...]:
    """Return origins in the form that browsers send. Raises ValueError."""
    return tuple(_parse_origin(part.strip()) for part in text.split(",") if part.strip())


def _parse_origin(text: str) -> str:
    """Return an origin in its normal form. Raises ValueError.

    Extensions and desktop applications have schemes of their own."""
    match = re.fullmatch(
        r"([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?/?", text.lower()
    )
    if match is None:
        raise ValueError(
            "write origins by scheme, host and port, as in"
            " https://app.example.org,http://localhost:5173; there is no wildcard"
        )
    scheme, host, port = match.groups()
    is_default = (scheme, port) in (("http", ":80"), ("https", ":443"))
    return f"{scheme}://{host}{'' if is_default else port or ''}"


def parse_networks(
    text: str,
) -> tuple[Network, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tuple(ipaddress.ip_network(part, strict=False) for part in parts)
    except ValueError:
        raise ValueError("write networks such as 10.0.0.0/8,2001:db8::/32") from None


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("write a number of seconds") from None


def parse_seconds(text: str) -> float:
    seconds = _parse_number(text)
    if not 0 <= seconds <= 3600:
        raise ValueError("write seconds, from 0 to 3600")
    return seconds


def parse_positive_seconds(text: str) -> float:
    """Return a number of seconds above 0. Raises ValueError."""
    seconds = _parse_number(text)
    if not 0 < seconds <= 3600:
        raise ValueError("write seconds, above 0 and up to 3600")
    return seconds


def count_default_workers() -> int:
    """Return the default number of processes that forward calls."""
    has_affinity = hasattr(os, "sched_getaffinity")
    processors = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(processors, MOST_DEFAULT_WORKERS)


def parse_process_count(text: str) -> int:
    """Return a number of processes. Raises ValueError."""
    if not re.fullmatch(r"[1-9]\d?", text):
        raise ValueError("write a number from 1 to 99")
    return int(text)


def parse_size(text: str) -> int:
    """Return a number of bytes, from a text like ``500MB`` or ``1GB`` (powers of 1000). Raises ValueError."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGT]?)B?", text.strip().upper())
    if not match:
        raise ValueError("write a size such as 500MB or 1GB")
    return int(float(match[1]) * 1000 ** " KMGT".index(match[2] or " "))


def parse_head_size(text: str) -> int:
    """Return the maximum size of a request head in bytes. Raises ValueError.

    It is bounded, since each read scans the whole head again."""
    size = parse_size(text)
    if not 4_000 <= size <= 256_000:
        raise ValueError("write a size from 4KB to 256KB")
    return size


def parse_web_memory(text: str) -> int:
    """Return the maximum address space of the web process in bytes. Raises ValueError.

    After loading, with its threads, the process uses 500 MB."""
    size = parse_size(text)
    if size < 800_000_000:
        raise ValueError("write a size of at least 800MB")
    return size


def parse_smtp_url(text: str) -> MailServer | None:
    """Return the mail server of a URL, None for empty text. Raises ValueError.

    The error does not quote the URL, which may hold a password."""
    if not text:
        return None
    parts = _split(text, f"the port is not a number; {ENCODED}")
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or _has_more_than_host(text):
        raise ValueError("write smtp://USER:PASSWORD@HOST:587 or smtps://USER:PASSWORD@HOST")
    if bool(parts.username) != bool(parts.password):
        raise ValueError("write both user and password, or neither")
    is_tls = parts.scheme == "smtps"
    return MailServer(
        is_tls=is_tls,
        host=parts.hostname,
        port=parts.port or (465 if is_tls else 587),
        user=unquote(parts.username, errors="strict") if parts.username else None,
        password=unquote(parts.password, errors="strict") if parts.password else None,
    )


def _has_more_than_host(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.path.strip("/") or parts.query or parts.fragment)


def parse_sender(text: str) -> "headerregistry.Address | None":
    if not text:
        return None
    # The parser of early 3.12 leaves out what stands behind a line break, instead of refusing it.
    name, address = parseaddr(text if text.isprintable() else "")
    # A process that sends no mail does without this module, half a megabyte.
    header = import_module("email.headerregistry")
    try:
        parse_email(address)
        sender: headerregistry.Address = header.Address(display_name=name, addr_spec=address)
    except (InvalidInputError, MessageError, ValueError) as error:
        raise ValueError("write an address, as in Taximeter <taximeter@example.org>") from error
    return sender


def parse_service_url(text: str) -> str:
    """Return the URL of a service without a slash at its end. Raises ValueError."""
    _split_address(text, "write https://HOST, with a path if necessary")
    return text.rstrip("/")


def parse_token(text: str) -> str | None:
    if not text:
        return None
    if len(text) < 16 or not re.fullmatch(r"[!-~]+", text):
        raise ValueError("write 16 characters or more, of letters, digits and punctuation")
    return text


def parse_optional_text(text: str) -> str | None:
    return text or None


def parse_path(text: str) -> Path:
    return Path(text).expanduser()


def parse_optional_path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None
