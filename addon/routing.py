"""Routing of requests by method and target alone.

Below ``/proxy/<slug>`` the target is sent on unchanged, so a target that an upstream might read in
another way is refused rather than normalised (``upstream_paths``). All other requests go to the web
process.

``/proxy/<slug>/run/<run id>`` is the same endpoint. The run id groups the calls of one client, and the
upstream never sees it."""

import re
from dataclasses import dataclass
from functools import lru_cache

from addon import errors, upstream_paths
from addon.destination import Destination
from addon.errors import Refusal
from runtime import runs
from store.control import slugs
from store.spool.format import Record

PROXIED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
CHECK_METHODS = ("GET", "HEAD")

# A client sends to the same few targets again and again: what follows from these is remembered.
MOST_ROUTES, MOST_REMEMBERED_CHARS = 1024, 256

_PROXY_PATH = re.compile(r"/proxy/([^/?#]*)(.*)", re.DOTALL)
_QUERY = re.compile(r"[!-\"$-~]*")  # printable ASCII without the fragment's #


@dataclass(frozen=True, slots=True)
class Route:
    """The destination of a request.

    ``target`` is its path below the upstream's prefix, with the query. ``run_id`` is None if the path
    has none. ``record`` is the kind of record that the exchange becomes, None for none. ``is_billed``:
    used-up budgets refuse the request."""

    destination: Destination
    slug: str = ""
    target: str = ""
    run_id: str | None = None
    is_billed: bool = False
    record: Record | None = None


_WEB = Route(Destination.WEB)
_CHECKS = {"/livez": Destination.LIVE, "/healthz": Destination.HEALTH}


def find_route(method: str, target: str) -> Route | Refusal:
    """Return the route of a request, or its refusal.

    ``target`` is the request target in origin form, exactly as received."""
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
        return errors.UNKNOWN_PATH if path.startswith("/v1/") else _WEB
    slug, rest = match.groups()
    run_id, rest = runs.split_path(rest)
    if rest in ("", "/") and method in ("HEAD", "GET"):
        return _probe(method, slug)
    if rest.startswith("//v1/"):  # a base URL that was configured with a slash at its end
        rest = rest[1:]
    call = upstream_paths.judge(method, rest)
    if isinstance(call, Refusal):
        return call
    if _QUERY.fullmatch(query) is None:
        return errors.bad_path("its query has a fragment or characters that must be encoded")
    if not slugs.is_slug(slug):
        return errors.unknown_slug(slug)
    if method not in PROXIED_METHODS:
        return errors.method_not_allowed(method, PROXIED_METHODS)
    target = rest + question_mark + query
    return Route(
        call.destination, slug, target, run_id, is_billed=call.is_billed, record=call.record
    )


_recall = lru_cache(MOST_ROUTES)(_match)


def _probe(method: str, slug: str) -> Route | Refusal:
    if not slugs.is_slug(slug):
        return errors.unknown_slug(slug)
    return Route(Destination.PROBE, slug) if method == "HEAD" else errors.UNKNOWN_PATH
