"""Following new entries while they are recorded, in all organisations, in order of insertion."""

import heapq
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from store.traces.calls.reader import EntryFilter, Row, TraceReader
from store.traces.paths import find_trace_files


@dataclass(frozen=True, slots=True)
class Followed:
    """A usage log entry, and the id of the organisation whose call it records."""

    organization_id: str
    row: Row


@dataclass(slots=True)
class _Place:
    organization_id: str
    reader: TraceReader
    last_id: int = 0


class Follower:
    """Reads new entries from all trace databases, each entry once, by the last ``id`` read from each.

    Methods raise sqlite3.Error."""

    def __init__(self, data_dir: Path, entry_filter: EntryFilter) -> None:
        self._data_dir = data_dir
        self._entry_filter = entry_filter
        self._places: dict[Path, _Place] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def read_last(self, count: int) -> list[Followed]:
        """Return the newest ``count`` entries, oldest first. ``read_new`` then returns only later ones."""
        newest: list[list[Followed]] = []
        for place in self._find_places():
            place.last_id = place.reader.find_last_id()
            rows = place.reader.read_newest(count, place.last_id, self._entry_filter)
            newest.append([Followed(place.organization_id, row) for row in rows])
        # Ids of two databases have no common order; each keeps its own.
        merged = heapq.merge(*newest, key=lambda each: str(each.row["created_at"]))
        return list(merged)[-count:] if count else []

    def read_new(self) -> Iterator[Followed]:
        """Yield the entries inserted since the last ``read_last`` or ``read_new``."""
        for place in self._find_places():
            up_to_id = place.reader.find_last_id()
            for row in place.reader.iter_inserted(place.last_id, up_to_id, self._entry_filter):
                yield Followed(place.organization_id, row)
            place.last_id = up_to_id

    def _find_places(self) -> list[_Place]:
        """Return the reading position in each trace database, opening new ones.

        Databases that are not yet ready are skipped."""
        for path in find_trace_files(self._data_dir):
            if path not in self._places:
                reader = TraceReader(path)
                if not reader.is_ready:  # the recorder is about to make it
                    reader.close()
                    continue
                self._open.callback(reader.close)
                self._places[path] = _Place(path.parent.name, reader)
        return list(self._places.values())
