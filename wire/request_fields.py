"""The few fields of a request that are recorded for each call: names, numbers, and a title.

All are fields of the outermost object. A long request consists mostly of messages, which are
counted and searched for the title. The cache markers are found in the bytes."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wire.block import CacheTtl
from wire.json_reading import as_list, as_object, as_objects, as_text
from wire.title import find_title

VALUES = ("model", "metadata", "max_tokens", "thread")
LISTS = ("messages", "tools")
# Of these objects one value each.
PARTS = {"output_config": "effort", "thinking": "budget_tokens", "billing_policy": "bill_to"}
# No fields of a request: found in its messages, in its bytes, and in its tools.
TITLE, CACHE_TTL, FREE_CONTAINERS = "title_text", "cache_ttl", "free_containers"

# A cache breakpoint. The quotes of text within strings are escaped, so this is never text.
_BREAKPOINT = re.compile(rb'"cache_control"\s*+:\s*+\{([^{}]*+)\}')
_ONE_HOUR = re.compile(rb'"ttl"\s*+:\s*+"1h"')

# Beside web tools from this version on containers cost nothing (the vendor's page "Pricing", 2026-08).
_WEB_TOOL = re.compile(r"web_(?:search|fetch)_(\d{8})")
_FREE_FROM = "20260209"

type Fields = dict[str, object]


def read_fields(document: object, text: bytes) -> Fields:
    """Return the recorded fields of a request parsed from ``text``, empty if it is not an object.

    For a list the value is its length (None if it is not a list), for some objects one of their values."""
    if not isinstance(document, dict):
        return {}
    fields = _find_fields(document)
    if "messages" in document:
        fields[TITLE] = find_title(as_list(document["messages"]))
    fields[CACHE_TTL] = _find_cache_ttl(text)
    return fields


def find_longest_ttl(*ttls: object) -> CacheTtl | None:
    """Return the longest of some lifetimes, or None if none of the values is a lifetime."""
    return "1h" if "1h" in ttls else "5m" if "5m" in ttls else None


class FieldsAnalysis:
    """The analysis for ``repeated_requests`` that finds the same fields as ``read_fields``."""

    def begin(self, head: Mapping[str, object], text: bytes) -> "_Found":
        """Return the result for the fields before the messages."""
        return _Found(_find_fields(head), cache_ttl=_find_cache_ttl(text))

    def read_whole(self, document: dict[str, object] | None, text: bytes) -> Fields:
        """Return the recorded fields of a request, empty if it is not an object."""
        return read_fields(document, text)


class _Found(NamedTuple):
    """The recorded fields of the head, and the number and title of the first messages.

    ``cache_ttl`` is the longest lifetime of a cache marker in all of them."""

    head: Fields
    number: int = 0
    title: str | None = None
    cache_ttl: CacheTtl | None = None

    @property
    def mark(self) -> "_Found":
        return self

    def add(self, messages: Sequence[object], text: bytes) -> "_Found":
        return _Found(
            self.head,
            self.number + len(messages),
            find_title(messages) or self.title,
            find_longest_ttl(self.cache_ttl, _find_cache_ttl(text)),
        )

    def cut(self, mark: "_Found") -> "_Found":
        return mark

    def finish(self, tail: Mapping[str, object]) -> Fields:
        found: Fields = {"messages": self.number, TITLE: self.title, CACHE_TTL: self.cache_ttl}
        return self.head | found | _find_fields(tail)


def _find_fields(document: Mapping[str, object]) -> Fields:
    fields: Fields = {name: document[name] for name in VALUES if name in document}
    for name in LISTS:
        if name in document:
            value = document[name]
            fields[name] = len(value) if isinstance(value, list) else None
    tools = document.get("tools")
    if tools and any(map(_frees_containers, as_objects(tools))):
        fields[FREE_CONTAINERS] = True
    for name, part in PARTS.items():
        if name in document:
            fields[name] = as_object(document[name]).get(part)
    return fields


def _frees_containers(tool: Mapping[str, object]) -> bool:
    found = _WEB_TOOL.fullmatch(as_text(tool.get("type")))
    return found is not None and found[1] >= _FREE_FROM


def _find_cache_ttl(text: bytes) -> CacheTtl | None:
    """Return the longest lifetime of the cache markers in a text, or None without markers.

    A marker that states no lifetime has five minutes."""
    if text.find(b'"cache_control"') < 0:  # far faster to find than the pattern
        return None
    longest: CacheTtl | None = None
    for found in _BREAKPOINT.finditer(text):
        if _ONE_HOUR.search(found[1]):
            return "1h"
        longest = "5m"
    return longest
