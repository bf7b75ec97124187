"""Token counts for the scripted upstream: an estimate, and a prompt cache with upstream's rules.

A token is assumed to be four bytes of JSON. A cache marker stores the prefix that ends with it, in the
order tools, system, messages; the longest stored prefix that ends at a marker is read, the rest up to
the last marker is written, and what follows is uncached. So the counts of a conversation are
consistent, and a change of the tools breaks the cache as it does upstream."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

BYTES_PER_TOKEN = 4
MIN_CACHED_TOKENS = 1024
LIFETIMES = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokens:
    """The input tokens of a request by kind. ``ttl`` is the lifetime of cache writes."""

    uncached: int
    written: int
    read: int
    ttl: str = "5m"


class PromptCache:
    """The stored prefixes of every model, with the times at which they expire."""

    def __init__(self) -> None:
        self._expires: dict[bytes, datetime] = {}

    def count(self, body: Mapping[str, Any], at: datetime) -> InputTokens:
        """Return the input tokens of a request sent at ``at``, and store the prefixes that it marks."""
        digest = hashlib.sha256(str(body.get("model")).encode())
        tokens = read = marked = 0
        ttl = "5m"
        for unit, marker in _units(body):
            digest.update(unit)
            tokens += count_tokens(unit)
            if marker is None or tokens < MIN_CACHED_TOKENS:
                continue
            marked, ttl, prefix = tokens, marker.get("ttl", "5m"), digest.digest()
            if self._expires.get(prefix, at) > at:
                read = tokens
            self._expires[prefix] = at + LIFETIMES[ttl]
        return InputTokens(uncached=tokens - marked, written=marked - read, read=read, ttl=ttl)


def count_tokens(data: bytes) -> int:
    """Return an estimate of the number of tokens in ``data``."""
    return -(-len(data) // BYTES_PER_TOKEN)


def _units(body: Mapping[str, Any]) -> Iterator[tuple[bytes, Mapping[str, str] | None]]:
    """Yield the blocks of a prompt in the order of the cache, each with its cache marker or None."""
    for block in (*body.get("tools", ()), *_as_blocks(body.get("system", ()))):
        yield _unit(block)
    for message in body.get("messages", ()):
        for block in _as_blocks(message["content"]):
            unit, marker = _unit(block)
            yield message["role"].encode() + unit, marker


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unit(block: Mapping[str, Any]) -> tuple[bytes, Mapping[str, str] | None]:
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(bare, ensure_ascii=False).encode(), block.get("cache_control")
