"""The rules for requests of web pages: only pages of listed origins may use a proxy endpoint.

A slug is not a secret and the proxy requires no login, so any web page could send calls through a
developer's proxy, by a plain ``fetch`` or through its own host name rebound to this machine. Browsers
reveal this: they send ``Origin`` with everything but same-origin GETs, and ``Sec-Fetch-Site`` with
everything to https and loopback addresses. Only pages of listed origins are allowed, and one page of
the dashboard with a ticket (``addon/replays.py``).

Navigation is refused too: the browser would display a response of the upstream as a page of the
dashboard's origin. Responses to pages of listed origins keep only named headers, since others may act
on an origin and browsers learn new ones. Responses to programs are unchanged."""

import ipaddress
import re
from collections.abc import Collection

from addon import errors
from addon.errors import Refusal
from addon.headers import Fields, Index
from addon.routing import PROXIED_METHODS
from runtime.local_requests import parse_host
from runtime.setting_values import LOOPBACK_HOSTS

KEPT = frozenset(
    b"connection content-disposition content-encoding content-language content-length content-type"
    b" date request-id retry-after retry-after-ms transfer-encoding x-request-id x-should-retry"
    b" x-taximeter-error".split()
)
_ADDED: Fields = (
    (b"cache-control", b"no-store"),  # or a navigation could find it in the browser's cache
    (b"content-security-policy", b"sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"access-control-expose-headers", b"*"),
)
_PREFLIGHT_MAX_AGE_S = 600
_NAME_LIST = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z, -]*")


class BrowserRules:
    """Decides which requests of browsers are forwarded, and which response headers pages get."""

    def __init__(self, allowed_origins: Collection[str], vendor: str, host: str | None) -> None:
        """Allow ``allowed_origins``, in the spelling of browsers. ``host`` is the one in the base URL."""
        self._allowed = {origin.encode() for origin in allowed_origins}
        self._hosts = LOOPBACK_HOSTS | {host}
        self._kept_prefix = f"{vendor}-".encode()

    def judge(self, method: str, signs: Index) -> Refusal | bytes | None:
        """Return a refusal, or the listed origin of the page that sends a request, or None for a program.

        ``signs`` indexes the headers of the request."""
        if _is_navigation(signs):
            return errors.NAVIGATION_REFUSED
        origin = signs.get(b"origin")
        if origin is not None:
            return origin if origin in self._allowed else errors.origin_refused(origin)
        if signs.get(b"sec-fetch-site", b"none") != b"none":
            return errors.origin_refused(None)
        if method in ("GET", "HEAD") and _looks_like_browser(signs):
            if not self._is_ours(signs):
                return errors.HOST_REFUSED
            if b"sec-fetch-site" not in signs and _comes_from_page(signs):
                return errors.origin_refused(None)
        return None

    def returned(self, fields: Fields, origin: bytes) -> Fields:
        """Return the response headers for a page of the listed origin ``origin``."""
        kept = tuple(
            field
            for field in fields
            if (name := field[0].lower()) in KEPT or name.startswith(self._kept_prefix)
        )
        return (*kept, *_for_origin(origin))

    def _is_ours(self, signs: Index) -> bool:
        """Return whether the Host header is one of our names or an IP address, which cannot be rebound."""
        host = parse_host(signs.get(b"host", b"").decode("latin-1")) or ""
        return host in self._hosts or _is_address(host)


def is_preflight(method: str, signs: Index) -> bool:
    """Return whether a request is a CORS preflight, which precedes the actual request of a page."""
    return method == "OPTIONS" and bool(signs.get(b"access-control-request-method"))


def make_preflight_fields(signs: Index, origin: bytes) -> Fields:
    """Return the response headers that allow a page of a listed origin what the proxy accepts.

    Headers that are not forwarded are allowed too, since they do no harm."""
    names = signs.get(b"access-control-request-headers", b"")
    allowed = [
        *_for_origin(origin),
        (b"access-control-allow-methods", ", ".join(sorted(PROXIED_METHODS)).encode()),
        (b"access-control-max-age", b"%d" % _PREFLIGHT_MAX_AGE_S),
        (b"vary", b"access-control-request-headers"),
    ]
    if names and _NAME_LIST.fullmatch(names):
        allowed.append((b"access-control-allow-headers", names))
    if signs.get(b"access-control-request-private-network") == b"true":
        allowed.append((b"access-control-allow-private-network", b"true"))
    return tuple(allowed)


def _for_origin(origin: bytes) -> Fields:
    return (*_ADDED, (b"access-control-allow-origin", origin), (b"vary", b"origin"))


def _is_navigation(signs: Index) -> bool:
    return (
        signs.get(b"sec-fetch-mode") == b"navigate"
        or b"upgrade-insecure-requests" in signs
        or b"text/html" in signs.get(b"accept", b"").lower()
    )


def _looks_like_browser(signs: Index) -> bool:
    """Return whether a GET may come from a browser.

    With a GET to its own origin, by plain http and not to loopback, a browser sends neither ``Origin``
    nor ``Sec-Fetch-Site``."""
    return b"referer" in signs or signs.get(b"user-agent", b"").startswith(b"Mozilla/")


def _comes_from_page(signs: Index) -> bool:
    """Return whether a GET without ``Origin`` and ``Sec-Fetch-Site`` comes from a web page.

    Any page can make such a GET with an image or a script. It then has a ``Referer``, or if the page
    withholds that, an ``Accept-Language``, which every browser sends. With neither it is a program
    that calls itself Mozilla."""
    referer = signs.get(b"referer")
    if referer is not None:
        return _authority(referer) != signs.get(b"host", b"").lower()
    return b"accept-language" in signs


def _authority(url: bytes) -> bytes:
    """Return the host and port in a URL, in lower case."""
    return re.sub(rb"^[^/]*//|[/?#].*", b"", url, flags=re.DOTALL).lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
