"""Settings: environment variables, each also an option of ``taximeter up``.

This table is their only description; the options, docs/settings.md and the checks come from it.
The values that the texts are parsed into are in ``setting_values``, and can be imported from here too.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from runtime import extensions, setting_values
from runtime.data_location import find_default_data_dir
from runtime.http_proxies import HttpProxy, parse_http_proxy
from runtime.json_lines import LogFormat
from runtime.node import Node
from runtime.safe_text import hide_credentials
from runtime.setting import PREFER_VARIABLE, Setting, SettingsError
from runtime.setting_values import (
    LOOPBACK_HOSTS,
    Address,
    MailLimits,
    MailServer,
    Network,
    Streaming,
    Timeouts,
    Upstream,
    count_default_workers,
    is_loopback,
    parse_size,
)
from runtime.sign_up_rule import SignUpRule, parse_sign_up
from runtime.webhook_rule import WebhookRule

if TYPE_CHECKING:
    from email import headerregistry

__all__ = [
    "CLIENT_MARK_VARIABLE",
    "LOOPBACK_HOSTS",
    "QUERY_SOCKETS_VARIABLE",
    "Address",
    "MailLimits",
    "MailServer",
    "Setting",
    "Settings",
    "SettingsError",
    "SignUpRule",
    "Streaming",
    "Timeouts",
    "Upstream",
    "group_settings",
    "is_loopback",
    "list_settings",
    "parse_size",
    "without_secrets",
    "without_web_settings",
]

# Not a setting: the supervisor passes the mark of x-taximeter-client headers to its children in it.
CLIENT_MARK_VARIABLE = "TAXIMETER_CLIENT_MARK"
# Not a setting either: the addresses of the query processes, for the web process.
QUERY_SOCKETS_VARIABLE = "TAXIMETER_QUERY_SOCKETS"


def _declare[Value](
    default: str,
    parse: Callable[[str], Value],
    help: str,
    *,
    group: str | None = None,
    is_secret: bool = False,
    is_for_web: bool = False,
    redact: Callable[[str], str] | None = None,
) -> Value:
    """Return a field of ``Settings`` whose value is read by the ``Setting`` of the field's name.

    ``group`` is the title of a group that begins with this setting; without it the setting belongs to
    the group of the field before."""
    setting = Setting("", default, parse, help, is_secret, is_for_web, redact)
    declared: Value = field(repr=not is_secret, metadata={"group": group, "setting": setting})
    return declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values of all settings. Each field is the only declaration of its setting."""

    listen: Address = _declare(
        "127.0.0.1:8080",
        setting_values.parse_listen,
        "Address and port to listen on.",
        group="Addresses",
    )
    base_url: str = _declare(
        "",
        setting_values.parse_base_url,
        "The address by which people and clients reach the service, without a path. Default: http://"
        " and the address to listen on.",
    )
    allowed_origins: tuple[str, ...] = _declare(
        "",
        setting_values.parse_origins,
        "Origins of web pages that may call proxy endpoints, separated by commas, for example"
        " https://app.example.org.",
    )
    trusted_proxies: tuple[Network, ...] = _declare(
        "",
        setting_values.parse_networks,
        "Networks whose x-forwarded-for is believed, separated by commas.",
    )

    upstream_url: Upstream = _declare(
        "https://api.anthropic.com",
        setting_values.parse_upstream,
        "Where calls are forwarded to: a Messages API. It may have a path prefix, and http is allowed.",
        group="Upstream",
    )
    upstreams: Mapping[str, Upstream] = _declare(
        "",
        setting_values.parse_upstreams,
        "Other upstreams, of which an endpoint may have one: NAME=URL, separated by commas.",
    )
    upstream_proxy: HttpProxy | None = _declare(
        "",
        parse_http_proxy,
        "The HTTP proxy through which upstreams are reached, except those on this machine, as in"
        f" http://USER:PASSWORD@HOST:3128. {PREFER_VARIABLE}",
        is_secret=True,
        redact=hide_credentials,
    )
    vendor: str = _declare(
        "anthropic",
        setting_values.parse_vendor,
        "The vendor of the upstream: request headers named <vendor>-… are forwarded.",
    )
    forward_headers: tuple[str, ...] = _declare(
        "",
        setting_values.parse_header_prefixes,
        "More request header prefixes to forward, separated by commas.",
    )
    upstream_timeout: Timeouts = _declare(
        str(Timeouts()),
        setting_values.parse_timeouts,
        "Seconds to wait for the upstream: connect, first_byte, idle.",
    )
    streaming: Streaming = _declare(
        "live",
        setting_values.parse_streaming,
        "live: chunks are forwarded as they arrive. buffered: the response is returned when it is"
        " complete, or larger than 32 MB.",
    )

    data_dir: Path = _declare(
        "",
        setting_values.parse_path,
        "The directory of all data; created readable by you only. Default: ./data, or the platform's"
        " directory for data where the program is installed without a checkout.",
        group="Data and prices",
    )
    disk_reserve: int = _declare(
        "1GB",
        setting_values.parse_size,
        "Below this much free disk, request bodies and large responses are no longer kept.",
    )
    prices: Path | None = _declare(
        "",
        setting_values.parse_optional_path,
        "A file of prices that override the built-in lists.",
    )
    extensions: Path | None = _declare(
        "",
        setting_values.parse_optional_path,
        "A folder of extensions, each a Python file, besides those that are installed.",
    )
    search_index: bool = _declare(
        "on",
        setting_values.parse_switch,
        "on: what was said in calls is indexed, and can be searched. off: nothing is indexed. What was"
        " recorded meanwhile is indexed when it is on again.",
    )

    request_idle_seconds: float = _declare(
        "60",
        setting_values.parse_positive_seconds,
        "A client whose request head is not whole after so long, or its body after so long and a"
        " second for each 64 KB, is disconnected.",
        group="Limits",
    )
    request_head: int = _declare(
        "64KB",
        setting_values.parse_head_size,
        "How large the head of a request may be; larger ones get 431.",
    )
    client_connections: int = _declare(
        "1000",
        setting_values.parse_count,
        "How many connections one client (an IPv4 address or /64) may have at a time; further ones"
        " get 503. Loopback and trusted proxies may have any number.",
    )
    request_memory: int = _declare(
        "512MB",
        setting_values.parse_size,
        "While requests that come in take this much memory, further large ones get 503.",
    )
    web_memory: int = _declare(
        "1.5GB",
        setting_values.parse_web_memory,
        "How much address space the process of pages and API may have, some 500 MB of which it takes"
        " unused; what needs more gets 503 (not on macOS).",
    )
    workers: int = _declare(
        "",
        setting_values.parse_process_count,
        "How many processes forward calls. Default: one for each processor, and four at most.",
    )
    query_processes: int = _declare(
        "2",
        setting_values.parse_process_count,
        "How many queries of the trace browser run at once; one more process waits to take over.",
    )
    max_endpoints: int = _declare(
        "1000",
        setting_values.parse_count,
        "How many proxy endpoints an organisation may have. Ten times as many slugs may be in use or"
        " reserved.",
    )
    drain_seconds: float = _declare(
        "25",
        setting_values.parse_seconds,
        "Seconds that calls in flight have to finish after the service is told to stop.",
    )

    log_format: LogFormat = _declare(
        "text",
        setting_values.parse_log_format,
        "text: lines for people. json: each line, also that of a call, is one JSON object.",
        group="Logs and metrics",
    )
    metrics_token: str | None = _declare(
        "",
        setting_values.parse_token,
        "With this text as Bearer, /metrics has the figures of all organisations: 16 characters or more."
        f" {PREFER_VARIABLE}",
        is_secret=True,
        is_for_web=True,
    )

    sign_up: SignUpRule = _declare(
        "open",
        parse_sign_up,
        "Who may create an account by signing in: open (everybody), invited, or e-mail domains,"
        " separated by commas.",
        group="Signing in",
    )
    github_client_id: str | None = _declare(
        "",
        setting_values.parse_optional_text,
        "The client id of the OAuth app for signing in with GitHub.",
        is_for_web=True,
    )
    github_client_secret: str | None = _declare(
        "",
        setting_values.parse_optional_text,
        f"The secret of that OAuth app. {PREFER_VARIABLE}",
        is_secret=True,
        is_for_web=True,
    )
    github_url: str = _declare(
        "https://github.com",
        setting_values.parse_service_url,
        "Where people sign in with GitHub; a GitHub Enterprise Server has its own address.",
        is_for_web=True,
    )
    github_api_url: str = _declare(
        "https://api.github.com",
        setting_values.parse_service_url,
        "Where GitHub's API is.",
        is_for_web=True,
    )
    google_client_id: str | None = _declare(
        "",
        setting_values.parse_optional_text,
        "The client id of the OAuth client for signing in with Google.",
        is_for_web=True,
    )
    google_client_secret: str | None = _declare(
        "",
        setting_values.parse_optional_text,
        f"The secret of that OAuth client. {PREFER_VARIABLE}",
        is_secret=True,
        is_for_web=True,
    )
    google_issuer: str = _declare(
        "https://accounts.google.com",
        setting_values.parse_service_url,
        "The provider of that OAuth client: Google, or another one with OpenID Connect.",
        is_for_web=True,
    )

    smtp_url: MailServer | None = _declare(
        "",
        setting_values.parse_smtp_url,
        "The server that sends mail: smtp://USER:PASSWORD@HOST (STARTTLS, port 587) or smtps://…"
        f" (TLS, port 465). {PREFER_VARIABLE}",
        is_secret=True,
        is_for_web=True,
        group="Mail and webhooks",
    )
    mail_from: "headerregistry.Address | None" = _declare(
        "",
        setting_values.parse_sender,
        "The sender of mails, as in Taximeter <taximeter@example.org>.",
        is_for_web=True,
    )
    sign_in_mails: MailLimits = _declare(
        str(MailLimits()),
        setting_values.parse_mail_limits,
        "How many mails with sign-in links are sent in 15 minutes: in total, for one IPv6 network (/48),"
        " for one client (an IPv4 address or /64), to one mailbox.",
        is_for_web=True,
    )
    webhook_networks: tuple[Network, ...] = _declare(
        "",
        setting_values.parse_networks,
        "Networks besides the public internet to which webhooks of budgets may be sent, separated by"
        " commas. A service for this machine alone may send them to loopback addresses too.",
        is_for_web=True,
    )

    node: Node
    of_extensions: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read every setting. Raises SettingsError for the first invalid one."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for setting in list_settings():
            text = environ.get(setting.variable, "").strip() or setting.default
            if not text and setting.name == "base_url":
                text = f"http://{values['listen'].connectable}"
            if not text and setting.name == "data_dir":
                text = str(find_default_data_dir())
            if not text and setting.name == "workers":
                text = str(count_default_workers())
            try:
                values[setting.name] = setting.parse(text)
            except ValueError as error:
                shown = "" if setting.is_secret else f"={hide_credentials(text)}"
                raise SettingsError(f"{setting.variable}{shown}: {error}") from None
        _check_together(values)
        node = extensions.call().node(values=values) or Node()
        known = {each.name for each in fields(cls)}
        others = {name: values.pop(name) for name in values.keys() - known}
        return cls(**values, node=node, of_extensions=others)

    def of[Value](self, setting: Setting[Value]) -> Value:
        """Return the value of an extension's setting."""
        value: Value = self.of_extensions[setting.name]
        return value

    def find_upstream(self, name: str | None) -> Upstream | None:
        """Return the upstream of this name, or the default one for None.

        Return None if the settings no longer have the name."""
        return self.upstream_url if name is None else self.upstreams.get(name)

    @property
    def is_local(self) -> bool:
        """Return whether the service is only for people at this machine, who see its terminal."""
        host = urlsplit(self.base_url).hostname or ""
        return self.listen.is_loopback and is_loopback(host)

    @property
    def prints_links(self) -> bool:
        """Return whether sign-in links are printed on the terminal because there is no mail server."""
        return self.smtp_url is None and self.is_local

    @property
    def webhook_rule(self) -> WebhookRule:
        """Return the rule for the addresses of webhooks."""
        return WebhookRule(self.webhook_networks, allows_loopback=self.is_local)

    def endpoint_url(self, slug: str) -> str:
        """Return the base URL for clients of this endpoint."""
        return f"{self.base_url}/proxy/{slug}"

    def link_url(self, token: str) -> str:
        """Return the URL that a person opens to sign in with ``token``."""
        return f"{self.base_url}/sign-in/link?token={token}"

    @property
    def control_path(self) -> Path:
        return self.data_dir / "control.db"

    @property
    def spool_path(self) -> Path:
        """Return the spool folder that the recorder of this node reads."""
        return self.data_dir / "spool"

    @property
    def has_pages(self) -> bool:
        """Return whether this node has a web process.

        It serves people, or the node that people use."""
        return not self.node.parts.isdisjoint({"web", "recorder"})

    @property
    def proxy_spool_path(self) -> Path:
        """Return the spool folder that the proxy of this node writes."""
        return self.data_dir / self.node.outgoing


# Settings that have no effect without certain others.
_BELONG_TOGETHER = (
    ("smtp_url", "mail_from"),
    ("github_client_id", "github_client_secret"),
    ("github_client_secret", "github_client_id"),
    ("google_client_id", "google_client_secret"),
    ("google_client_secret", "google_client_id"),
)


@cache
def group_own_settings() -> Mapping[str, Sequence[Setting[Any]]]:
    """Return the settings that are fields of ``Settings``, by the title of their group."""
    groups: dict[str, list[Setting[Any]]] = {}
    group: list[Setting[Any]] = []
    for each in fields(Settings):
        if each.metadata:
            if title := each.metadata["group"]:
                group = groups[title] = []
            group.append(replace(each.metadata["setting"], name=each.name))
    return groups


@cache
def group_settings() -> Mapping[str, Sequence[Setting[Any]]]:
    """Return all settings by the title of their group.

    A setting of an extension is in the group that the extension names."""
    groups = {title: list(settings) for title, settings in group_own_settings().items()}
    for given in extensions.call().settings():
        for title, settings in given.items():
            groups.setdefault(title, []).extend(settings)
    return groups


@cache
def list_settings() -> tuple[Setting[Any], ...]:
    """Return all settings, in the order of their groups."""
    return tuple(chain.from_iterable(group_settings().values()))


def without_web_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the settings for the web process alone."""
    for_web = {setting.variable for setting in list_settings() if setting.is_for_web}
    return {name: text for name, text in environ.items() if name not in for_web}


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without secrets and without the settings for the web process alone.

    The rest may be written down."""
    found = without_web_settings(environ)
    for setting in list_settings():
        if setting.is_secret and setting.variable in found:
            text = found.pop(setting.variable)
            if setting.redact is not None:
                found[setting.variable] = setting.redact(text)
    return found


def _check_together(values: Mapping[str, Any]) -> None:
    """Raise SettingsError if settings contradict each other."""
    variables = {setting.name: setting.variable for setting in list_settings()}
    for name, other in _BELONG_TOGETHER:
        if values[name] is not None and values[other] is None:
            raise SettingsError(f"{variables[name]} is set, so {variables[other]} must be set too")
