"""The comparison of the running service with the real upstream.

Tokens of a small request are counted twice with the user's key, directly and through a proxy endpoint,
which is free and deterministic. The key is sent only to the hosts to which the service sends it too,
and is not printed."""

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime

import httpx

from manage.doctor.findings import Finding
from manage.doctor.upstream_checks import find_upstream
from manage.http_client import (
    KEY_VARIABLE,
    TOKEN_VARIABLE,
    make_credential_headers,
    shorten,
)
from runtime import clock
from runtime.http_proxies import HttpProxy
from runtime.safe_text import terminal_line
from runtime.settings import Settings, is_loopback

TIMEOUT_S = 30.0
CLOCK_SLACK = timedelta(minutes=1)
_PATH = "/v1/messages/count_tokens"
_BODY = json.dumps(
    {
        "model": "claude-haiku-4-5",
        "messages": [{"role": "user", "content": "Is „this“ what came?\n\N{OTTER}"}],
    },
    ensure_ascii=False,
).encode()
# Of one connection, or different each time.
_MAY_DIFFER = frozenset(
    [
        "alt-svc",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "keep-alive",
        "set-cookie",
        "transfer-encoding",
    ]
)


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    names: frozenset[str]
    body: bytes
    date: str | None


def check_live(
    settings: Settings, slug: str, environ: Mapping[str, str], trust: ssl.SSLContext
) -> Iterator[Finding]:
    """Yield the differences between both responses, and the difference of the clock from upstream's."""
    headers = _make_headers(environ)
    if headers is None:
        message = "there is no key to send a request with"
        yield Finding("live", "wrong", message, f"set {KEY_VARIABLE} or {TOKEN_VARIABLE}")
        return
    upstream = find_upstream(settings, slug)
    if upstream is None:
        message = f"the upstream of {terminal_line(slug)} is not in TAXIMETER_UPSTREAMS"
        yield Finding("live", "wrong", message, "name it there, or give the endpoint another one")
        return
    direct_url = f"{upstream}{_PATH}"
    service_url = f"http://{settings.listen.connectable}/proxy/{slug}{_PATH}"
    try:
        proxy = None if is_loopback(upstream.host) else settings.upstream_proxy
        direct = _request(direct_url, headers, trust, proxy)
    except httpx.HTTPError as error:
        message = f"{direct_url} does not respond: {shorten(str(error))}"
        yield Finding("live", "wrong", message, "check the network, and TAXIMETER_UPSTREAM_URL")
        return
    try:
        through = _request(service_url, headers, trust)
    except httpx.HTTPError as error:
        message = f"{service_url} does not respond: {shorten(str(error))}"
        yield Finding("live", "wrong", message, "start the service with `taximeter up`")
        return
    yield _compare(slug, direct, through)
    if direct.date is not None:
        yield from _compare_clock(direct.date)


def _make_headers(environ: Mapping[str, str]) -> dict[str, str] | None:
    credential = make_credential_headers(environ)
    common = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    return None if credential is None else common | credential


def _request(
    url: str, headers: Mapping[str, str], trust: ssl.SSLContext, proxy: HttpProxy | None = None
) -> _Response:
    by = None
    if proxy is not None:
        secret = proxy.authorization
        fields = {} if secret is None else {"proxy-authorization": secret.decode()}
        by = httpx.Proxy(f"{proxy}", headers=fields)
    response = httpx.post(
        url,
        content=_BODY,
        headers=headers,
        timeout=TIMEOUT_S,
        verify=trust,
        trust_env=False,
        proxy=by,
    )
    names = frozenset(name.lower() for name in response.headers)
    return _Response(
        response.status_code, names - _MAY_DIFFER, response.content, response.headers.get("date")
    )


def _compare(slug: str, direct: _Response, through: _Response) -> Finding:
    name = "live"
    if through.status != direct.status:
        message = (
            f"status {direct.status} directly, and {through.status} through {terminal_line(slug)}:"
            f" {shorten(through.body.decode(errors='replace'))}"
        )
        advice = "`taximeter endpoints list` shows the endpoints; name one with --slug"
        return Finding(name, "wrong", message, advice)
    if direct.status != 200:
        message = (
            f"upstream responds with {direct.status} both directly and through"
            f" {terminal_line(slug)}: {shorten(direct.body.decode(errors='replace'))}"
        )
        return Finding(name, "note", message, "use a key that it accepts, and compare again")
    if through.body != direct.body:
        message = (
            f"{shorten(direct.body.decode(errors='replace'))} directly, and"
            f" {shorten(through.body.decode(errors='replace'))} through {terminal_line(slug)}"
        )
        return Finding(name, "wrong", message, "run it again; if it stays, report it")
    if missing := sorted(direct.names - through.names):
        message = f"response headers missing through {terminal_line(slug)}: {terminal_line(', '.join(missing))}"
        return Finding(name, "wrong", message, "see docs/headers.md")
    return Finding(name, "ok", f"the same response directly and through {terminal_line(slug)}")


def _compare_clock(date: str) -> Iterator[Finding]:
    try:
        theirs = parsedate_to_datetime(date)
        off = clock.now() - theirs
    except (ValueError, TypeError):  # not a date, or one without its offset
        return
    seconds = round(off.total_seconds())
    if abs(off) > CLOCK_SLACK:
        message = f"{abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} upstream's"
        yield Finding(
            "clock", "wrong", message, "set the clock (timedatectl, or your system's settings)"
        )
    else:
        yield Finding("clock", "ok", f"within {max(abs(seconds), 1)} s of upstream's")
