"""Figures of the example by SQL that shares nothing with the pages, and how pages show them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from metering.formats import format_cents
from tests.browser.visitor import Visitor

_FIGURES = """
const figures = [...document.querySelectorAll("dl.figures .figure")].map(
  (each) => [squeeze(each.querySelector("dt").textContent), squeeze(each.querySelector("dd").textContent)]);
const cells = [...document.querySelectorAll("dl.strip > div")].map((each) => [
  squeeze(each.querySelector("dt").textContent),
  [...each.querySelectorAll("dd")].map((line) => squeeze(line.textContent)).join(" ")]);
return Object.fromEntries([...figures, ...cells]);
"""
_ROWS = """
const named = (each) => squeeze(each.querySelector("caption")?.textContent ?? "") === arguments[0];
const region = [...document.querySelectorAll("[role=region]")].find((each) => each.ariaLabel === arguments[0])
  ?? [...document.querySelectorAll("table")].find(named);
const heads = [...region.querySelectorAll("thead tr:last-child th")].flatMap((each) =>
  each.colSpan > 1 ? [squeeze(each.textContent), `${squeeze(each.textContent)} %`] : [squeeze(each.textContent)]);
return [...region.querySelectorAll("tbody tr")].map((row) => Object.fromEntries(
  [...row.cells].map((cell, place) => [heads[place], squeeze(cell.textContent)])));
"""

BREAK_COSTS = """
select c.id, missed.tokens, missed.tokens * (w.rate_usd - r.rate_usd) / 1e4 as cents
from usage as c join predecessors as p on p.usage_id = c.id join usage as b on b.id = p.previous_id
join (
  select c.id, min(b.cache_read_input_tokens + b.cache_creation_input_tokens,
    c.cache_read_input_tokens + c.cache_creation_input_tokens + c.input_tokens) - c.cache_read_input_tokens
    as tokens, b.cache_read_input_tokens + b.cache_creation_input_tokens as prefix
  from usage as c join predecessors as p on p.usage_id = c.id join usage as b on b.id = p.previous_id
) as missed on missed.id = c.id
join (select usage_id, max(rate_usd) as rate_usd from usage_cost where component = 'cache_write_5m'
  group by 1) as w on w.usage_id = c.id
join (select model, max(rate_usd) as rate_usd from usage_cost where component = 'cache_read'
  group by 1) as r on r.model = c.model
where c.session_id = ? and missed.tokens >= 2000 and missed.tokens > 0.05 * missed.prefix
order by c.id
"""
"""The calls of a session that broke the cache: those that wrote again what was there, and what that cost
more than reading it, by the prices on their bills."""


PROMPT = "input_tokens + cache_creation_input_tokens + cache_read_input_tokens"
_SUMS = (
    "count(*) as calls, sum(outcome not in ('complete', 'client_disconnected')) as errors,"
    f" total(cost_cents) as cents, sum({PROMPT}) as prompt, max({PROMPT}) as largest,"
    " sum(cache_read_input_tokens) as read, sum(output_tokens) as output,"
    " total(estimated_cents) as estimated, total(iif(billing = 'subscription', cost_cents, 0)) as value"
)


class Facts:
    """The database of the example, opened to read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=30)) as db:
            db.row_factory = sqlite3.Row
            yield db

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with self._open() as db:
            return [dict(row) for row in db.execute(sql, values)]

    def row(self, sql: str, *values: Any) -> dict[str, Any]:
        (row,) = self.rows(sql, *values)
        return row

    def value(self, sql: str, *values: Any) -> Any:
        (value,) = self.row(sql, *values).values()
        return value

    def sum_calls(self, where: str, *values: Any) -> dict[str, Any]:
        """Return the sums of the calls for which a condition holds."""
        return self.row(f"select {_SUMS} from usage where {where}", *values)  # noqa: S608 - the test's own text

    def sum_calls_by(self, column: str, where: str = "true") -> list[dict[str, Any]]:
        """Return the sums by the values of a column, the most expensive first."""
        return self.rows(
            f"select {column} as name, {_SUMS} from usage where {where} and name is not null"  # noqa: S608 - as above
            " group by 1 order by cents desc"
        )

    def dollars(self, sql: str, *values: Any) -> str:
        """Return an amount of cents as pages show it."""
        return format_cents(self.value(sql, *values))


def read_figures(visitor: Visitor) -> dict[str, str]:
    """Return the figures at the top of a page with their notes, by label."""
    return dict(visitor.run(_FIGURES))


def read_rows(visitor: Visitor, label: str) -> list[dict[str, str]]:
    """Return the rows of the table with this label, by the headings of its columns."""
    return list(visitor.run(_ROWS, label))
