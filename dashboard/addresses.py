"""Addresses of this service: the path of a request, where to go after signing in, and addresses of
pages that several folders link to.
"""

import re
from urllib.parse import quote, urlencode, urlsplit

from starlette.types import Scope

HOME = "/"
CALLS = "/calls"
CALL_ID = r"[0-9]{1,18}"
ENTRY_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MAX_LENGTH = 8_000
# Browsers take a backslash for a slash and leave out tabs and line ends, so neither may be in it.
_LOCAL = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f-\x9f]*")


def local_path(text: str) -> str:
    """Return ``text`` if it is an address of this service, otherwise that of the home page. Addresses for
    signing in or out are replaced too."""
    if len(text) > MAX_LENGTH or not _LOCAL.fullmatch(text):
        return HOME
    parts = urlsplit(text)
    if parts.scheme or parts.netloc or parts.path.startswith(("/sign-in", "/sign-out")):
        return HOME
    return text


def sign_in_address(next_path: str, provider: str | None = None) -> str:
    """Return the address of the sign-in page, which redirects to ``next_path`` after signing in."""
    address = "/sign-in" if provider is None else f"/sign-in/{provider}"
    here = local_path(next_path)
    return address if here == HOME else f"{address}?next={quote(here, safe='/')}"


def call_address(usage_id: int, tab: str = "") -> str:
    """Return the address of the page of a call, or of its tab ``tab``."""
    return f"/calls/{usage_id}/{tab}" if tab else f"/calls/{usage_id}"


def entry_address(entry_id: str) -> str:
    """Return the address of the page of a call, made of its entry id instead of its row id."""
    return f"/calls/{quote(entry_id.encode('utf-8', 'replace'), safe='')}"


def row_address(usage_id: int) -> str:
    """Return the address of the row of a call, with which the addresses of its bodies begin."""
    return f"/traces/usage/{usage_id}"


def session_address(session_id: str) -> str:
    """Return the address of the page of a session."""
    return f"/sessions/{quote(session_id.encode('utf-8', 'replace'), safe='')}"


def query_address(sql: str, ending: str = "") -> str:
    """Return the address of the page on which ``sql`` can be edited. With ``ending`` (``.json``), it is
    that of the query's result as a file."""
    return f"/traces{ending}?{urlencode({'sql': sql}, errors='replace')}"


def raw_path(scope: Scope) -> str:
    """Return the percent-encoded path as it was received, without the query. Datasette routes by the same
    path."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.partition(b"?")[0].decode("latin-1")


def requested(scope: Scope) -> str:
    """Return path and query, percent-encoded as they were received."""
    query = scope["query_string"].decode("latin-1")
    return f"{raw_path(scope)}?{query}" if query else raw_path(scope)
