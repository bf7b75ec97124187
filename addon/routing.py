"""Routing of requests by their method and their target alone.

Below ``/proxy/<slug>`` only what is on an exact list is let through: the target is sent on
verbatim, so whatever an upstream might read differently from us (dot segments, encoded slashes,
doubled slashes, fragments) is refused rather than normalised. The web process gets all the rest.

``/proxy/<slug>/run/<run id>`` is the same endpoint. The run id groups the calls of one client, and
the upstream never sees it.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote

from addon import errors
from addon.errors import Refusal
from runtime import runs
from store.control import slugs

PROXIED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
CHECK_METHODS = ("GET", "HEAD")

# A client sends to the same few targets again and again: what follows from these is remembered.
MOST_ROUTES, MOST_REMEMBERED_CHARS = 1024, 256

_PROXY_PATH = re.compile(r"/proxy/([^/?#]*)(.*)", re.DOTALL)
_UPSTREAM_PATH = re.compile(r"/v1(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+")
_QUERY = re.compile(r"[!-\"$-~]*")  # printable ASCII without the fragment's #
_ENCODED_TROUBLE = re.compile(r"%(?![0-9A-Fa-f]{2})|%2[fF]|%5[cC]|%[01][0-9A-Fa-f]|%7[fF]")


class Destination(Enum):
    MESSAGES = "messages"  # forwarded, limited, logged
    COUNT_TOKENS = "count_tokens"  # forwarded, limited
    OTHER = "other"  # forwarded, limited
    PROBE = "probe"  # responded to here: does this endpoint exist?
    HEALTH = "health"  # responded to here
    LIVE = "live"  # responded to here
    WEB = "web"  # the web process


@dataclass(frozen=True, slots=True)
class Route:
    """Holds where a request goes. ``target`` is its path below the upstream's prefix, with the query.
    ``run_id`` is None where the path names no run."""

    destination: Destination
    slug: str = ""
    target: str = ""
    run_id: str | None = None


_WEB = Route(Destination.WEB)
_CHECKS = {"/livez": Destination.LIVE, "/healthz": Destination.HEALTH}


def find_route(method: str, target: str) -> Route | Refusal:
    """Return where a request goes, or why it is refused. ``target`` is the request target in origin
    form, exactly as received."""
    if len(target) > MOST_REMEMBERED_CHARS:
        return _match(method, target)
    return _recall(method, target)


def _match(method: str, target: str) -> Route | Refusal:
    path, question_mark, query = target.partition("?")
    if path in _CHECKS:
        if method not in CHECK_METHODS:
            return errors.method_not_allowed(method, CHECK_METHODS)
        return Route(_CHECKS[path])
    match = _PROXY_PATH.fullmatch(path)
    if match is None:
        # A base URL without its /proxy/<slug>: the upstream's clients understand this response.
        return errors.unknown_path() if path.startswith("/v1/") else _WEB
    slug, rest = match.groups()
    run_id, rest = runs.split_path(rest)
    if rest in ("", "/") and method in ("HEAD", "GET"):
        return _probe(method, slug)
    if rest.startswith("//v1/"):  # a base URL that was configured with a slash at its end
        rest = rest[1:]
    refusal = _check_path(rest) or _check_query(query)
    if refusal is not None:
        return refusal
    if not slugs.is_slug(slug):
        return errors.unknown_slug(slug)
    if method not in PROXIED_METHODS:
        return errors.method_not_allowed(method, PROXIED_METHODS)
    return Route(_destination(method, rest), slug, rest + question_mark + query, run_id)


_recall = lru_cache(MOST_ROUTES)(_match)


def _probe(method: str, slug: str) -> Route | Refusal:
    if not slugs.is_slug(slug):
        return errors.unknown_slug(slug)
    return Route(Destination.PROBE, slug) if method == "HEAD" else errors.unknown_path()


def _destination(method: str, path: str) -> Destination:
    if method == "POST" and path == "/v1/messages":
        return Destination.MESSAGES
    if method == "POST" and path == "/v1/messages/count_tokens":
        return Destination.COUNT_TOKENS
    return Destination.OTHER


def _check_path(path: str) -> Refusal | None:
    if "#" in path:
        return errors.bad_path("it has a fragment")
    if "\\" in path or _ENCODED_TROUBLE.search(path):
        return errors.bad_path(
            "it has a backslash, an encoded slash or control character, or a bad %"
        )
    if any(segment in (".", "..") for segment in unquote(path).split("/")):
        return errors.bad_path("it has dot segments")
    if path.startswith("/v1/") and "//" in path:
        return errors.bad_path("it has a doubled slash")
    if _UPSTREAM_PATH.fullmatch(path) is None:
        return errors.unknown_path()
    return None


def _check_query(query: str) -> Refusal | None:
    if _QUERY.fullmatch(query) is None:
        return errors.bad_path("its query has a fragment or characters that must be encoded")
    return None
