"""Reading of the use of each model in a period or a session: tokens by rate, and their cost."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping

from metering.components import CACHE_WRITE_1H, TOKEN_CLASSES, WEB_SEARCH
from metering.other_models import ModelUse
from metering.token_counts import NAMES
from store.traces.sessions import unnamed_sessions
from store.traces.sums.overview_query import COLUMNS, Query, divide, write_filters

_CACHE_WRITES = TOKEN_CLASSES[CACHE_WRITE_1H]
_SUMS = (
    "entries",
    "cost_cents",
    "web_search_requests",
    "unpriced_tokens",
    CACHE_WRITE_1H + "_tokens",
    *NAMES,
)
_OF_SESSION = f"""
    select coalesce(c.model, ''), c.component, sum(c.quantity), total(c.cents),
        sum(case when c.cents is null then c.quantity else 0 end)
    from usage_cost as c where c.usage_id in ({unnamed_sessions.CALLS}) and c.unbilled_reason is null
    group by 1, 2
"""  # noqa: S608 - our own text
_CALLS_OF_SESSION = f"""
    select coalesce(model, ''), count(*) from usage where id in ({unnamed_sessions.CALLS}) group by 1
"""  # noqa: S608 - our own text


def read_model_uses(db: sqlite3.Connection, query: Query) -> list[ModelUse]:
    """Return the use of each model in a period from the sums, the most expensive first.

    ``query`` must not filter by session or agent, since the sums do not have them. Raises
    sqlite3.Error."""
    found = defaultdict[str, list[float]](lambda: [0] * len(_SUMS))
    where, values = write_filters(query.filters, COLUMNS)
    for table, at, start, end in divide(query):
        rows = db.execute(
            f"select model, {', '.join(f'sum({name})' for name in _SUMS)} from {table}"  # noqa: S608 - our own names
            f" where {at} >= ? and {at} < ?{where} group by model",
            [start, end, *values],
        )
        for model, *sums in rows:
            found[model] = [a + b for a, b in zip(found[model], sums, strict=True)]
    return _sort(_make(model, dict(zip(_SUMS, sums, strict=True))) for model, sums in found.items())


def read_session_uses(db: sqlite3.Connection, session_id: str) -> list[ModelUse]:
    """Return the use of each model in a session, the most expensive first. Raises sqlite3.Error."""
    names = unnamed_sessions.bind(session_id)
    lines = defaultdict[str, dict[str, tuple[int, float, int]]](dict)
    for model, component, *sums in db.execute(_OF_SESSION, names):
        lines[model][component] = (sums[0], sums[1], sums[2])
    calls = dict(db.execute(_CALLS_OF_SESSION, names).fetchall())
    return _sort(
        ModelUse(
            model=model,
            calls=calls.get(model, 0),
            cents=sum(cents for _, cents, _ in lines[model].values()),
            tokens={name: lines[model].get(name, (0, 0.0, 0))[0] for name in TOKEN_CLASSES},
            searches=lines[model].get(WEB_SEARCH.name, (0, 0.0, 0))[0],
            unpriced_tokens=sum(
                unknown for name, (_, _, unknown) in lines[model].items() if name in TOKEN_CLASSES
            ),
        )
        for model in sorted(lines.keys() | calls.keys())
    )


def _make(model: str, sums: Mapping[str, float]) -> ModelUse:
    """Return the use of a model from its sums by column. Cache writes have two rates and one column."""
    hours = int(sums[CACHE_WRITE_1H + "_tokens"])
    tokens = {
        name: int(sums[counted_in]) - (hours if counted_in == _CACHE_WRITES else 0)
        for name, counted_in in TOKEN_CLASSES.items()
    }
    return ModelUse(
        model=model,
        calls=int(sums["entries"]),
        cents=sums["cost_cents"],
        tokens=tokens | {CACHE_WRITE_1H: hours},
        searches=int(sums["web_search_requests"]),
        unpriced_tokens=int(sums["unpriced_tokens"]),
    )


def _sort(uses: Iterable[ModelUse]) -> list[ModelUse]:
    return sorted(uses, key=lambda use: (-use.cents, -use.calls, use.model))
