"""The usage object of a response.

In a stream the counts come twice, first as an estimate in ``message_start`` and then, cumulative,
in one or more ``message_delta``: a value in a delta replaces the one before, 0 included; a missing
or null value changes nothing. Nothing is added up, so repeated events do no harm. The list of
passes is stale if an event changed the counts and had no list. A value that cannot be a count
(negative, a string, a fraction, a boolean, absurdly large) replaces nothing: no count is better
than a wrong one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

from wire.json_reading import as_count, as_list, as_object, clean_text

MAX_FIELDS, MAX_MERGED_FIELDS = 64, 512  # upstream has some dozen
PASSES = "iterations"
_SERVER_TOOLS, _CACHE_WRITES = "server_tool_use", "cache_creation"

type Fields = Mapping[str, object]
NOTHING: Fields = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class UsageObject:
    """A usage object, or one merged from several events.

    ``passes_are_stale``: counts changed after the passes were listed."""

    fields: Fields = NOTHING
    passes_are_stale: bool = False

    @classmethod
    def read(cls, value: object) -> "UsageObject":
        """Return the usage object of an event or a document, empty for any other value."""
        fields = _take_first(as_object(value))
        return cls(
            {
                name: _take_first(each) if isinstance(each, dict) else each
                for name, each in fields.items()
                if each is not None
            }
        )

    def merge(self, later: "UsageObject") -> "UsageObject":
        """Return the usage with its values replaced by those of a later one.

        The number of its fields is bounded: this runs for each event, and its time must not grow with
        them."""
        if not self.fields:
            return later
        merged = _merge(self.fields, later.fields)
        if PASSES in later.fields:
            return UsageObject(merged, later.passes_are_stale)
        is_stale = PASSES in self.fields and (self.passes_are_stale or self._differs(later))
        return UsageObject(merged, is_stale)

    def _differs(self, later: "UsageObject") -> bool:
        """Return whether a later usage has other counts."""
        return any(
            as_count(value) is not None and value != self.fields.get(name)
            for name, value in later.fields.items()
        )

    def count(self, name: str) -> int | None:
        """Return a count, or None."""
        return as_count(self.fields.get(name))

    def count_part(self, name: str, part: str) -> int | None:
        """Return the count ``part`` of the object ``name``, or None."""
        parts = self.fields.get(name)
        return as_count(parts.get(part)) if isinstance(parts, dict) else None

    def text(self, name: str) -> str | None:
        """Return a text, or None."""
        return clean_text(self.fields.get(name))

    @property
    def has_split_writes(self) -> bool:
        """Return whether the lifetimes of cache writes are stated."""
        return bool(self.fields.get(_CACHE_WRITES))

    @property
    def split_writes(self) -> tuple[int | None, int | None]:
        """Return the cache writes with a lifetime of five minutes, and of an hour; None if not stated."""
        split = as_object(self.fields.get(_CACHE_WRITES))
        return (
            as_count(split.get("ephemeral_5m_input_tokens")),
            as_count(split.get("ephemeral_1h_input_tokens")),
        )

    @property
    def web_searches(self) -> int | None:
        """Return the number of web searches that upstream ran, or None if not stated."""
        return self.count_part(_SERVER_TOOLS, "web_search_requests")

    @property
    def has_server_runs(self) -> bool:
        """Return whether upstream ran tools and counted them."""
        return any(as_object(self.fields.get(_SERVER_TOOLS)).values())

    def list_passes(self, most: int) -> Sequence["UsageObject"]:
        """Return the usage of each pass, [] if they are not listed or more than ``most``."""
        items = as_list(self.fields.get(PASSES))
        return (
            [UsageObject.read(item) for item in items if isinstance(item, dict)]
            if len(items) <= most
            else []
        )


NO_USAGE = UsageObject()


def _take_first(fields: dict[str, object]) -> dict[str, object]:
    """Return the first ``MAX_FIELDS`` fields of an object."""
    return fields if len(fields) <= MAX_FIELDS else dict(islice(fields.items(), MAX_FIELDS))


def _merge(before: Fields, later: Fields, depth: int = 1) -> dict[str, object]:
    merged = dict(before)
    for name, value in later.items():
        known = merged.get(name)
        if value is None or (known is None and len(merged) >= MAX_MERGED_FIELDS):
            continue
        if as_count(known) is not None and as_count(value) is None:
            continue
        if isinstance(value, dict) and depth:
            merged[name] = _merge(as_object(known), value, depth - 1)
        elif not isinstance(known, dict):
            merged[name] = value
    return merged
