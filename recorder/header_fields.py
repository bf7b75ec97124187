"""The fields of an entry that come from the headers of an exchange, bounded and cleaned."""

import re
from functools import lru_cache
from typing import Any

import orjson

from metering.client_hints import (
    COLUMNS,
    PARENT_AGENT_ID,
    PROMPT_ID,
    REQUEST_CLASS,
    keep_identifiers,
)
from store.spool.format import RequestHead, ResponseHead
from wire.json_reading import clean_text

MAX_RETRIES = 1_000_000
MAX_AGENT_CHARS = 1_000  # of a User-Agent header; the product is its beginning
MAX_PATH_CHARS, MAX_BETAS_CHARS, MAX_HINT_CHARS = 2_000, 1_000, 4_096
_LANGUAGE = re.compile(r"/[^0-9/]+$")
_VERSION = re.compile(r"v?[0-9][\w.+-]*", re.ASCII)


def make_request_head_fields(head: RequestHead) -> dict[str, Any]:
    """Return the fields of an entry that come from the head of the request, by name."""
    return {
        "entry_id": head.entry_id,
        "created_at": head.created_at,
        "proxy_endpoint_id": head.proxy_endpoint_id,
        "slug": head.slug,
        "agent_id": clean_text(head.agent_id),
        "client": parse_product(head.user_agent),
        "retry_count": _parse_retry_count(head.retry_count),
        "request_bytes": head.request_bytes,
        "credential_hmac": clean_text(head.credential_hmac),
        "path_query": clean_text(head.path_query, MAX_PATH_CHARS),
        "api_version": clean_text(head.api_version),
        "betas": clean_text(head.betas, MAX_BETAS_CHARS),
        "run_id": clean_text(head.run_id),
        "user_profile_id": clean_text(head.user_profile_id),
        "attributed_user": head.attributed_user,
        "project": head.project,
        "tags": head.tags,
        "attributes_left_out": head.attributes_left_out,
        "upstream": head.upstream,
        **_make_hint_fields(head),
    }


def make_response_head_fields(response: ResponseHead | None) -> dict[str, Any]:
    """Return the fields of an entry that come from the head of the response, by name.

    Empty without one."""
    if response is None:
        return {}
    return {
        "status_code": response.status_code,
        "upstream_request_id": clean_text(response.upstream_request_id),
        "upstream_organization_id": clean_text(response.upstream_organization_id),
    }


def _make_hint_fields(head: RequestHead) -> dict[str, str | None]:
    """Return the fields for the hints of the client, only of identifiers if no text is kept."""
    hints = head.client_hints
    if not hints:  # as most programs
        return {}
    if head.metadata_only:
        hints = keep_identifiers(hints)
    return {
        "parent_agent_id": clean_text(hints.get(PARENT_AGENT_ID)),
        "request_class": clean_text(hints.get(REQUEST_CLASS)),
        "prompt_id": clean_text(hints.get(PROMPT_ID)),
        "client_hints": _format_hints(hints),
    }


def _format_hints(hints: dict[str, str]) -> str | None:
    """Return the JSON of the hints that have no column of their own."""
    others = {
        name: clean_text(value, MAX_HINT_CHARS)
        for name, value in hints.items()
        if name not in COLUMNS
    }
    return orjson.dumps(others, option=orjson.OPT_SORT_KEYS).decode() if others else None


def parse_product(user_agent: str | None) -> str | None:
    """Return the product that a User-Agent header names first, with its version."""
    return _parse_product((user_agent or "")[:MAX_AGENT_CHARS])


@lru_cache(maxsize=1_000)  # many calls come from the same client
def _parse_product(user_agent: str) -> str | None:
    """Return the first product with its version: ``claude-cli/2.1`` for ``claude-cli/2.1 (external)``.

    After the slash there may be a language, and the version in the next word, as in ``Anthropic/Python
    2.11.0``."""
    words = user_agent.split(maxsplit=2)
    if len(words) > 1 and _LANGUAGE.search(words[0]) and _VERSION.fullmatch(words[1]):
        return clean_text(f"{words[0]} {words[1]}")
    return clean_text(words[0]) if words else None


def _parse_retry_count(header: str | None) -> int | None:
    text = (header or "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_RETRIES)):
        return None
    return min(int(text), MAX_RETRIES)
