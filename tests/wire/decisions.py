"""The table of decisions about upstream's API (``decisions.toml``), and how it is compared with the SDK."""

import tomllib
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import ROOT

TABLE = Path(__file__).with_name("decisions.toml")
DECISIONS = ("cost", "conversation", "recorded", "refused by budgets", "free", "neutral")
OF_ENDPOINTS = ("recorded", "refused by budgets", "free")
NOT_YET = "not yet "


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A decision about some names of one kind. ``done`` has what of it the code carries out, ``open`` what
    nobody has built yet."""

    kind: str
    decision: str
    what: str
    names: tuple[str, ...]
    read_in: tuple[str, ...] = ()
    since: str = "0"
    until: str | None = None
    by_hand: bool = False

    @property
    def done(self) -> list[str]:
        return [each for each in self.decision.split(", ") if not each.startswith(NOT_YET)]

    @property
    def open(self) -> list[str]:
        words = self.decision.split(", ")
        return [each.removeprefix(NOT_YET) for each in words if each.startswith(NOT_YET)]

    def is_in(self, version: str) -> bool:
        """Return whether this version of the SDK should have the names."""
        is_old = self.until is not None and _number(version) >= _number(self.until)
        return not self.by_hand and not is_old and _number(version) >= _number(self.since)


@dataclass(frozen=True, slots=True)
class Kind:
    """All rows of one kind, and what to do about a name that is in none."""

    name: str
    todo: str
    rows: tuple[Row, ...]

    def list_names(self, *decisions: str) -> list[str]:
        """Return the names about which one of these was decided and built, or all names."""
        wanted = {*decisions}
        rows = (row for row in self.rows if not wanted or wanted & {*row.done})
        return [name for row in rows for name in row.names]


def load_decisions() -> dict[str, Kind]:
    """Return the table by its kinds."""
    return {
        name: _read_kind(name, table) for name, table in tomllib.loads(TABLE.read_text()).items()
    }


def find_differences(kind: Kind, found: Set[str], version: str) -> Iterator[str]:
    """Yield what to change in the table for it to have what is found in this version of the SDK."""
    place = f"[[{kind.name}.rows]] of {TABLE.relative_to(ROOT)}"
    times = Counter(kind.list_names())
    expected = {name for row in kind.rows if row.is_in(version) for name in row.names}
    if new := found - {*times}:
        yield (
            f"Nobody has decided about what is new in anthropic {version}: {_join(new)}. {kind.todo}"
            f' Then add it to a {place}, with since = "{version}" if the locked version lacks it.'
        )
    if gone := expected - found:
        yield (
            f"anthropic {version} no longer has: {_join(gone)}. Remove it from its {place}, or give that"
            f' until = "{version}" if the locked version still has it.'
        )
    if early := found & {*times} - expected:
        yield (
            f"anthropic {version} has: {_join(early)}. Correct `since`, `until` or `by_hand` of its"
            f" {place}."
        )
    if double := {name for name, count in times.items() if count > 1}:
        yield f"There are several decisions about: {_join(double)}. Leave one {place}."


def _join(names: Set[str]) -> str:
    return ", ".join(sorted(names))


def _read_kind(name: str, table: dict[str, Any]) -> Kind:
    rows = []
    for row in table["rows"]:
        read = {"names": tuple(_expand(row["names"])), "read_in": tuple(row.get("read_in", ()))}
        rows.append(Row(kind=name, **row | read))
    return Kind(name, table["todo"], tuple(rows))


def _expand(text: str) -> Iterator[str]:
    """Yield the names of a text: ``a.b=x|y`` stands for two, and so does ``GET POST /v1/x``."""
    methods: list[str] = []
    for word in text.split():
        if word.isupper():
            methods.append(word)
        elif word.startswith("/"):
            yield from (f"{method} {word}" for method in methods)
            methods.clear()
        else:
            first, *others = word.split("|")
            yield first
            end = max(first.rfind(mark) for mark in ".=:") + 1
            yield from (first[:end] + other for other in others)


def _number(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
