"""An upstream's prompt cache as its rules describe it, which knows nothing of the code under test.

Four bytes of a block's JSON are a token. Entries are prefixes that end at a marker, and live for five
minutes or an hour after they were last used.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

MIN_TOKENS = 1024
LOOKBACK = 20
LIFETIMES_S = {"5m": 300, "1h": 3600}


@dataclass
class UpstreamCache:
    entries: dict[bytes, tuple[float, str]] = field(default_factory=dict)

    def count(self, body: dict[str, Any], at: float) -> dict[str, int]:
        """Return the usage of a request at that second, and keep what it marks."""
        digest = hashlib.sha256(body["model"].encode())
        tokens, before = 0, None
        ends: list[tuple[bytes, int, int, str | None]] = []  # digest, tokens, position, marker
        position = -1
        for level, kind, block in _blocks(body):
            bare = {name: block[name] for name in block if name != "cache_control"}
            written = json.dumps(bare).encode()
            digest.update(level.encode() + written)
            tokens += -(-len(written) // 4)
            is_run = kind in ("tool_use", "tool_result") and kind == before
            position += 0 if is_run else 1
            before = kind
            marker = block.get("cache_control")
            ttl = marker.get("ttl", "5m") if marker else None
            ends.append((digest.digest(), tokens, position, ttl))
        read = self._read(ends, at)
        writes = {"5m": 0, "1h": 0}
        done = read
        for key, size, _, ttl in ends:
            if ttl is None or size < MIN_TOKENS:
                continue
            if size > done:
                writes[ttl] += size - done
                done = size
            if size > read or key not in self.entries:
                self.entries[key] = (at, ttl)
            if size <= read:  # a read renews what it passes
                self.entries[key] = (at, self.entries[key][1])
        return {
            "input_tokens": tokens - done,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sum(writes.values()),
            "ephemeral_5m_input_tokens": writes["5m"],
            "ephemeral_1h_input_tokens": writes["1h"],
        }

    def _read(self, ends: list[tuple[bytes, int, int, str | None]], at: float) -> int:
        best = 0
        for n, (_, _, position, ttl) in enumerate(ends):
            if ttl is None:
                continue
            for key, size, place, _ in ends[: n + 1]:
                if position - place >= LOOKBACK or key not in self.entries:
                    continue
                used, life = self.entries[key]
                if at - used <= LIFETIMES_S[life] and size > best:
                    best = size
                    self.entries[key] = (at, life)
        return best


def _blocks(body: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    kept = [tool for tool in body.get("tools", ()) if not tool.get("defer_loading")]
    found = [("tools", "tool", tool) for tool in kept]
    found += [("system", "text", block) for block in _as_blocks(body.get("system", ()))]
    for message in body["messages"]:
        for block in _as_blocks(message["content"]):
            found.append((message["role"], block["type"], block))
    return found


def _as_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
