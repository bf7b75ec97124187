"""The proxy's own errors, in the upstream's error format so that its SDKs understand them.

A header ``x-taximeter-error: <code>`` distinguishes them from the upstream's, which are never changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from addon.headers import Fields
from runtime import response_headers
from runtime.errors import CODES
from store.budget_file import ReachedBudget

_HEADER = response_headers.ERROR.encode()
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
OVERLOADED = "overloaded_error"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The proxy's own error response, sent instead of a response of the upstream."""

    status: int
    code: str
    message: str
    headers: Fields = ()
    special_type: str | None = None  # where the status does not say it
    api_code: str | None = None  # of a request to the management API: its errors have another shape

    @property
    def error_type(self) -> str:
        """Return the upstream's name for this type of error."""
        usual = "invalid_request_error" if self.status < 500 else "api_error"
        return self.special_type or _TYPES.get(self.status, usual)

    def body(self) -> bytes:
        """Return the JSON body, in the error format of the upstream or of the management API."""
        if self.api_code is not None:
            return orjson.dumps({"error": {"code": self.api_code, "message": self.message}})
        error = {"type": self.error_type, "message": self.message}
        return orjson.dumps({"type": "error", "error": error})

    def header_fields(self) -> Fields:
        """Return the headers, without those for the framing of the body."""
        return (
            (b"content-type", b"application/json"),
            (_HEADER, self.code.encode()),
            *self.headers,
        )


def _retry_after(wait_s: int) -> Fields:
    return ((b"retry-after", b"%d" % wait_s),)


UNKNOWN_PATH = Refusal(
    404,
    "unknown_path",
    "Not a path of the messages API. The base URL to configure is <service>/proxy/<slug>;"
    " clients append /v1/messages to it.",
)
NAVIGATION_REFUSED = Refusal(
    403,
    "navigation_refused",
    "This is the address of an API and has no pages. A program must not ask for text/html: send"
    " 'Accept: application/json'.",
)
HOST_REFUSED = Refusal(
    403,
    "host_refused",
    "A browser came by a name that is not this service's. If it is, put it into"
    " TAXIMETER_BASE_URL. The request was not forwarded.",
)
UPGRADE_REFUSED = Refusal(400, "upgrade_refused", "Protocol upgrades are not proxied.")
UNEXPECTED_BODY = Refusal(
    400, "unexpected_body", "This address takes no request body: send the request without one."
)
SERVICE_KEY = Refusal(
    401,
    "service_key",
    "The request holds a service API key of Taximeter, which is for its management API only. Send"
    " your credential for the upstream API here. The request was not forwarded.",
)
MEMORY_FULL = Refusal(
    503,
    "memory_full",
    "Too many requests are coming in at once; try again. The request was not forwarded.",
    _retry_after(5),
    OVERLOADED,
)
NOT_A_PROXY_NODE = Refusal(
    404,
    "not_a_proxy_node",
    "This node forwards no calls; use the address of one with the role proxy.",
)
DIRECTORY_UNAVAILABLE = Refusal(
    503,
    "directory_unavailable",
    "The proxy cannot read its list of endpoints just now; try again.",
    _retry_after(1),
)
INTERNAL_ERROR = Refusal(500, "internal_error", "The proxy failed before forwarding this.")
WEB_UNAVAILABLE = Refusal(
    503,
    "web_unavailable",
    "The management pages are starting or restarting; try again.",
    _retry_after(1),
)
WEB_BUSY = Refusal(
    503,
    "web_busy",
    "Too many requests to the pages and the API are in progress; try again.",
    _retry_after(1),
    OVERLOADED,
    CODES[503],
)


def unknown_slug(slug: str) -> Refusal:
    return Refusal(
        404,
        "unknown_slug",
        f"There is no proxy endpoint with the slug {slug!r}."
        " `taximeter endpoints list` shows those that exist.",
    )


def bad_path(reason: str) -> Refusal:
    return Refusal(400, "bad_path", f"The path was refused: {reason}.")


def bad_header(fault: str) -> Refusal:
    return Refusal(400, "bad_header", f"The request has {fault}.")


def origin_refused(origin: bytes | None) -> Refusal:
    page = "this page's" if origin is None else f"{origin[:200].decode('latin-1')!r}"
    return Refusal(
        403,
        "origin_refused",
        f"Web pages may call this proxy only from the origins in TAXIMETER_ALLOWED_ORIGINS, and {page}"
        " is not among them. The request was not forwarded.",
    )


def method_not_allowed(method: str, allowed: Sequence[str]) -> Refusal:
    names = ", ".join(allowed)
    return Refusal(
        405,
        "method_not_allowed",
        f"{method} is not allowed here: use one of {names}.",
        ((b"allow", names.encode()),),
    )


def rate_limited(limit: int, retry_after_s: int) -> Refusal:
    return Refusal(
        429,
        "rate_limited",
        f"This proxy endpoint takes {limit} such requests a minute."
        f" Try again in {retry_after_s} s. The request was not forwarded.",
        _retry_after(retry_after_s),
    )


def budget_reached(reached: ReachedBudget, retry_after_s: int) -> Refusal:
    whose = "the organisation" if reached.is_of_organization else "this proxy endpoint"
    return Refusal(
        429,
        "budget_reached",
        f"The budget of {whose} for the {reached.period} is used up. The next {reached.period} begins"
        f" at {reached.resets_at}; an owner can raise the limit. The request was not forwarded.",
        (*_retry_after(retry_after_s), (b"x-should-retry", b"false")),
        "billing_error",
    )


def too_large(limit_bytes: int) -> Refusal:
    return Refusal(
        413,
        "request_too_large",
        f"The request body is larger than {limit_bytes // (1024 * 1024)} MB.",
    )


def request_stalled(idle_s: float) -> Refusal:
    return Refusal(
        408,
        "request_stalled",
        f"The request body came too slowly: it was not whole within {idle_s:g} s and a second more for"
        " each 64 KB. It was ended.",
    )


def slow_head(limit_s: float) -> Refusal:
    return Refusal(
        408,
        "request_stalled",
        f"The head of the request was not whole within {limit_s:g} s. It was not forwarded.",
    )


def web_body_too_large(limit_bytes: int) -> Refusal:
    return replace(too_large(limit_bytes), api_code=CODES[413])


def head_too_large(excess: str) -> Refusal:
    return Refusal(
        431, "head_too_large", f"The request was refused: {excess}. It was not forwarded."
    )


def too_many_connections(limit: int) -> Refusal:
    return Refusal(
        503,
        "too_many_connections",
        f"Your address has {limit} connections to this service, which is the most that it may have."
        " Close some, or use them for several requests. The request was not forwarded.",
        _retry_after(5),
        OVERLOADED,
    )


def unknown_upstream(slug: str, name: str) -> Refusal:
    return Refusal(
        503,
        "unknown_upstream",
        f"The proxy endpoint {slug!r} sends calls to the upstream {name!r}, which TAXIMETER_UPSTREAMS does"
        " not name (any more). The request was not forwarded.",
    )


def upstream_unreachable(reason: str) -> Refusal:
    return Refusal(502, "upstream_unreachable", f"The upstream API could not be reached: {reason}")


def upstream_interrupted(reason: str) -> Refusal:
    return Refusal(502, "upstream_interrupted", f"The upstream API did not respond: {reason}")


def upstream_invalid(reason: str) -> Refusal:
    return Refusal(
        502, "upstream_invalid", f"The response of the upstream API is not valid HTTP: {reason}."
    )


def upstream_timeout(phase: str) -> Refusal:
    return Refusal(
        504, "upstream_timeout", f"The upstream API timed out ({phase.replace('_', ' ')})."
    )


def protocol_error(status: int, message: str) -> Refusal:
    """Return the refusal of a request that the HTTP layer rejects: unparsable, or a smuggling attempt."""
    return Refusal(status, "protocol_error", message)
