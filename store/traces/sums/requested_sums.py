"""Counts of the calls whose response named no model, by the requested model.

Hourly sums have only the model of the response, so they have these calls under no model. Reports
subtract them there and list them by names of their own. They are read from the calls, which an
index finds: the newest ``MAX_CALLS`` of a period, some 4 µs each, and the ``MAX_MODELS`` most
frequent models, since clients can request any name. Calls beyond that, and those that retention has
removed, stay under no model; so do tokens without a model, of which there are hardly any."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from store.traces.sums import booking_sql
from store.traces.sums.requested_models import mark

MAX_CALLS, MAX_MODELS = 10_000, 50
_SUMS = booking_sql.OF_CALL

type Sums = tuple[float, ...]
type NamedSums = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The calls to read: those that arrived at ``start`` or later and before ``end``.

    Both are text that sorts with ``created_at``. ``values`` has required values by SQL over ``usage as
    u``. ``step`` is SQL for the step of a call."""

    start: str
    end: str
    step: str = "''"
    values: Mapping[str, str] = field(default_factory=dict)


def read_requested(db: sqlite3.Connection, part: Part) -> dict[tuple[str, str], NamedSums]:
    """Return sums by (step, name of the requested model), with the names of columns of ``usage_hourly``.

    Raises sqlite3.Error."""
    found: dict[tuple[str, str], NamedSums] = {}
    calls = Counter[str]()
    for step, model, *numbers in _select(db, part):
        name, named = mark(model), dict(zip(_SUMS, numbers, strict=True))
        found[step, name] = named
        calls[name] += named["entries"]
    listed = {name for name, _ in calls.most_common(MAX_MODELS)}
    return {key: named for key, named in found.items() if key[1] in listed}


def _select(db: sqlite3.Connection, part: Part) -> list[tuple[str, str, *tuple[int, ...]]]:
    names = {f"value_{place}": value for place, value in enumerate(part.values.values())}
    conditions = "".join(
        f" and {sql} = :{name}" for sql, name in zip(part.values, names, strict=True)
    )
    newest = (
        f"select * from usage as u where model is null and request_model is not null{conditions}"  # noqa: S608 - our own text
        " and created_at >= :start and created_at < :end order by created_at desc limit :most"
    )
    return db.execute(
        f"select {part.step}, u.request_model, {', '.join(f'sum({sql})' for sql in _SUMS.values())}"  # noqa: S608
        f" from ({newest}) as u group by 1, 2",
        {"start": part.start, "end": part.end, "most": MAX_CALLS, **names},
    ).fetchall()


def take_out(whole: Sums, parts: Iterable[Sums]) -> Sums | None:
    """Return ``whole`` minus ``parts``, or None if nothing is left."""
    for part in parts:
        whole = tuple(max(0, a - b) for a, b in zip(whole, part, strict=True))
    return whole if any(each > 1e-9 for each in whole) else None
