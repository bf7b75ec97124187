"""Token counts for the scripted upstream: an estimate, and a prompt cache with upstream's rules.

A token is taken to be four bytes of JSON. A cache marker stores the prefix that ends with it, in the
order tools, system, messages; the longest stored prefix that ends at a marker is read, what follows up
to the last marker is written, and the rest is uncached. So the counts of a conversation fit together,
and a change of the tools loses the cache as it does upstream.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BYTES_PER_TOKEN = 4
MIN_CACHED_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokens:
    uncached: int
    written: int
    read: int


class PromptCache:
    """The stored prefixes of every model. Entries never expire: a demo is shorter than that."""

    def __init__(self) -> None:
        self._stored: set[bytes] = set()

    def count(self, body: Mapping[str, Any]) -> InputTokens:
        """Return the input tokens of a request, and store the prefixes that it marks."""
        digest = hashlib.sha256(str(body.get("model")).encode())
        tokens = read = marked = 0
        for unit, is_marked in _units(body):
            digest.update(unit)
            tokens += count_tokens(unit)
            if is_marked and tokens >= MIN_CACHED_TOKENS:
                marked = tokens
                if digest.digest() in self._stored:
                    read = tokens
                self._stored.add(digest.digest())
        return InputTokens(uncached=tokens - marked, written=marked - read, read=read)


def count_tokens(data: bytes) -> int:
    """Return an estimate of the tokens of a text."""
    return -(-len(data) // BYTES_PER_TOKEN)


def _units(body: Mapping[str, Any]) -> Iterator[tuple[bytes, bool]]:
    """Yield the blocks of a prompt in the order of the cache, and whether each carries a marker."""
    for block in (*body.get("tools", ()), *_as_blocks(body.get("system", ()))):
        yield _unit(block)
    for message in body.get("messages", ()):
        for block in _as_blocks(message["content"]):
            unit, is_marked = _unit(block)
            yield message["role"].encode() + unit, is_marked


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unit(block: Mapping[str, Any]) -> tuple[bytes, bool]:
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(bare, ensure_ascii=False).encode(), "cache_control" in block
