"""The sums of the uses and costs of tools: by session and by day.

An analysis of a session (``recorder.savings``) writes those rows of the session that have changed,
and adds the difference to the sums of its days: computing a day anew would hold up recording for
longer the more sessions it has, and most analyses change little. Rows of days whose calls were
removed stay until the last call of the session is removed.

A day has a limited number of named targets. A new target replaces the least expensive one if a
session has paid more for it; all others are added up in one row."""

import sqlite3
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import orjson

from store.traces.sessions import unnamed_sessions
from store.traces.sums import histograms

MAX_TARGETS = 200  # of a day, and of a session on a day; the others are one row
OTHER = "(other)"
ALL = "*"  # all endpoints, or all credentials, in the sizes of results
_USES = (
    "select substr(u.created_at, 1, 10), u.slug, coalesce(u.credential_hmac, ''),"  # noqa: S608 - our own text
    " coalesce(t.server, ''), coalesce(t.tool, ''), coalesce(t.target, ''),"
    " count(*), sum(t.problem is not null), coalesce(sum(t.result_tokens), 0),"
    " json_group_array(t.result_tokens) filter (where t.result_tokens is not null)"
    " from usage as u join tool_uses as t on t.usage_id = u.id"
    f" where u.id in ({unnamed_sessions.CALLS}) group by 1, 2, 3, 4, 5, 6"
)
_GROUPS = (
    "select u.id, substr(u.created_at, 1, 10), u.slug, coalesce(u.credential_hmac, '')"  # noqa: S608 - our own text
    f" from usage as u where u.id in ({unnamed_sessions.CALLS})"
)
# The days that have sums, each found by one step into the index.
_DAYS = (
    "with recursive days (day) as (select min(day) from tools_daily where day >= :first_day"
    " union all select (select min(d.day) from tools_daily as d where d.day > days.day)"
    " from days where days.day is not null)"
)
_OF_SESSION = "on s.day = days.day and s.session_id = :session_id"
_RESULTS = "uses, failed, result_tokens"
_CENTS = "written_cents, carried_cents"
_OF_TOOL = "day, slug, credential, server, tool"
_SUMS_OF_TOOL = f"{_RESULTS}, definition_cents, {_CENTS}"
_IS_TOOL = "day = ? and slug = ? and credential = ? and server = ? and tool = ?"
_TOOLS_OF_SESSION = (
    f"{_DAYS} select s.day, slug, credential, server, tool, {_SUMS_OF_TOOL}, result_sizes"  # noqa: S608 - our own text
    f" from days cross join session_tools as s {_OF_SESSION}"
)
_DELETE_TOOL = f"delete from session_tools where {_IS_TOOL} and session_id = ?"  # noqa: S608 - our own text
_PUT_TOOL = (
    f"insert or replace into session_tools ({_OF_TOOL}, session_id, {_SUMS_OF_TOOL}, result_sizes)"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_TOOL = (
    f"insert into tools_daily ({_OF_TOOL}, {_SUMS_OF_TOOL})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    f" on conflict ({_OF_TOOL}) do update set "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS_OF_TOOL.split(", "))
)
# Sums of floats that are taken out again leave digits that mean nothing.
_REMOVE_EMPTY = (
    f"delete from tools_daily where {_IS_TOOL} and uses <= 0 and result_tokens <= 0"  # noqa: S608 - our own text
    " and definition_cents + written_cents + carried_cents < 1e-9"
)
_FIND_SIZES = f"select result_sizes from tool_sizes_daily where {_IS_TOOL}"  # noqa: S608 - our own text
_PUT_SIZES = (
    f"insert or replace into tool_sizes_daily ({_OF_TOOL}, result_sizes) values (?, ?, ?, ?, ?, ?)"  # noqa: S608 - our own text
)
_DELETE_SIZES = f"delete from tool_sizes_daily where {_IS_TOOL}"  # noqa: S608 - our own text
_OF_TARGET = "slug, credential, server, tool, target"
_TARGETS_OF_DAY = (
    f"select {_OF_TARGET}, sessions, {_RESULTS}, {_CENTS} from tool_targets_daily where day = ?"  # noqa: S608 - our own text
)
_TARGETS_OF_SESSION = (
    f"{_DAYS} select s.day, {_OF_TARGET}, 1, {_RESULTS}, {_CENTS}"  # noqa: S608 - our own text
    f" from days cross join session_tool_targets as s {_OF_SESSION}"
)
_TARGETS_ON_DAY = (
    f"select {_OF_TARGET}, 1, {_RESULTS}, {_CENTS} from session_tool_targets"  # noqa: S608 - our own text
    " where day = ? and session_id = ?"
)
_IS_TARGET = f"{_IS_TOOL} and target = ?"
_DELETE_TARGET = f"delete from session_tool_targets where {_IS_TARGET} and session_id = ?"  # noqa: S608 - our own text
_PUT_TARGET = (
    f"insert or replace into session_tool_targets (day, {_OF_TARGET}, session_id, {_RESULTS}, {_CENTS})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DELETE_DAILY = f"delete from tool_targets_daily where {_IS_TARGET}"  # noqa: S608 - our own text
_PUT_DAILY = (
    f"insert or replace into tool_targets_daily (day, {_OF_TARGET}, sessions, {_RESULTS}, {_CENTS})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Payer(NamedTuple):
    """The key of a sum: the calls of one day, endpoint and credential ('' for none)."""

    day: str
    slug: str
    credential: str


class Target(NamedTuple):
    """A tool with its MCP server and the target of its use; "" for a part that is absent."""

    server: str
    tool: str
    target: str


@dataclass(slots=True)
class ToolSums:
    """Sums of the uses of tools. Costs are in US cents, of tokens with a known price.

    ``sizes`` is the histogram of the tokens of results."""

    uses: int = 0
    failed: int = 0
    result_tokens: int = 0
    definition_cents: float = 0.0
    written_cents: float = 0.0
    carried_cents: float = 0.0
    sizes: int = 0

    @classmethod
    def of(cls, columns: Sequence[Any], sizes: int) -> Self:
        """Return sums made of the columns of a table row, with a histogram of sizes."""
        sums = cls(*columns)
        sums.sizes = sizes
        return sums

    @property
    def columns(self) -> tuple[float, ...]:
        """Return the sums without the histogram, in the order of the columns of tables."""
        return _read_sums(self)[:-1]

    @property
    def brought_cents(self) -> float:
        """Return the cost of results in US cents."""
        return self.written_cents + self.carried_cents

    @property
    def cents(self) -> float:
        """Return the total cost in US cents."""
        return self.definition_cents + self.brought_cents

    @property
    def median_result_tokens(self) -> int | None:
        """Return the median number of tokens of a result, or None if unknown."""
        median = histograms.find_percentile(self.sizes, 0.5)
        return None if median is None else round(median)

    def add(self, other: "ToolSums") -> None:
        """Add other sums to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_read_sums = attrgetter(*ToolSums.__slots__)
NO_SUMS = ToolSums()

type SumsOfTargets = Mapping[tuple[Payer, Target], ToolSums]


class TargetKey(NamedTuple):
    """The target of a tool, with the endpoint and credential of the calls."""

    slug: str
    credential: str
    server: str
    tool: str
    target: str

    @property
    def others(self) -> "TargetKey":
        """Return the key of the row that adds up all targets without a row of their own."""
        return self._replace(server="", tool="", target=OTHER)


class TargetSums(NamedTuple):
    """The sums of a target on a day, for all sessions or one."""

    sessions: int
    uses: int
    failed: int
    result_tokens: int
    written_cents: float
    carried_cents: float

    @property
    def cents(self) -> float:
        """Return the cost of results in US cents."""
        return self.written_cents + self.carried_cents

    def plus(self, other: "TargetSums", sign: int = 1) -> "TargetSums":
        """Return the sum of both or, with ``sign`` -1, the difference, with no value below 0."""
        pairs = zip(self, other, strict=True)
        return TargetSums._make(max(own + sign * added, 0) for own, added in pairs)


type ToolKey = tuple[str, str, str, str, str]  # day, endpoint, credential, server and tool
type Targets = dict[TargetKey, TargetSums]
NO_TARGETS: Mapping[TargetKey, TargetSums] = MappingProxyType({})


def change_targets(
    targets: Targets,
    added: Mapping[TargetKey, TargetSums],
    removed: Mapping[TargetKey, TargetSums] = NO_TARGETS,
) -> None:
    """Add a session's targets to those of a day, and subtract the session's earlier ones, ``removed``."""
    for key, sums in removed.items():
        row = key if key in targets else key.others
        if row in targets:
            left = targets.pop(row).plus(sums, -1)
            if left.sessions:
                targets[row] = left
    count = sum(key.target != OTHER for key in targets)
    for key, sums in sorted(added.items(), key=lambda item: -item[1].cents):
        if key in targets or key.target == OTHER:
            _add(targets, key, sums)
        elif count < MAX_TARGETS:
            targets[key] = sums
            count += 1
        else:
            least = min((k for k in targets if k.target != OTHER), key=lambda k: targets[k].cents)
            if sums.cents > targets[least].cents:
                _add(targets, least.others, targets.pop(least))
                targets[key] = sums
            else:
                _add(targets, key.others, sums)


def _add(targets: Targets, key: TargetKey, sums: TargetSums) -> None:
    targets[key] = targets[key].plus(sums) if key in targets else sums


def read_payers(connection: sqlite3.Connection, session_id: str) -> dict[int, Payer]:
    """Return the key under which each call of a session is summed, by row id."""
    rows = connection.execute(_GROUPS, unnamed_sessions.bind(session_id))
    return {usage_id: Payer(*payer) for usage_id, *payer in rows}


def read_uses(
    connection: sqlite3.Connection, session_id: str
) -> dict[tuple[Payer, Target], ToolSums]:
    """Return the uses of tools in a session, without their costs."""
    rows = connection.execute(_USES, unnamed_sessions.bind(session_id))
    return {
        (Payer(*row[:3]), Target(*row[3:6])): ToolSums.of(
            row[6:9], histograms.make(orjson.loads(row[9]))
        )
        for row in rows
    }


def write_session(
    connection: sqlite3.Connection,
    session_id: str,
    first_day: str,
    sums: SumsOfTargets,
    *,
    has_costs: bool,
) -> None:
    """Store the sums of a session from ``first_day`` on, in place of earlier ones.

    Without costs, as when the texts are gone, stored sums that have costs stay. The caller holds the
    write lock."""
    if not has_costs and _has_costs(connection, session_id):
        return
    old_tools = _read_tools(connection, session_id, first_day)
    old, new = _read_targets(connection, session_id, first_day), _choose_targets(sums)
    _change_tools(connection, session_id, old_tools, _sum_tools(sums))
    for day in old.keys() | new.keys():
        _change_targets(connection, session_id, day, old.get(day, {}), new.get(day, {}))


def remove_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove the sums of a session. The caller holds the write lock."""
    targets = _read_targets(connection, session_id)
    _change_tools(connection, session_id, _read_tools(connection, session_id), {})
    for day, old in targets.items():
        _change_targets(connection, session_id, day, old, {})


def forget_targets(connection: sqlite3.Connection, usage_id: int) -> None:
    """Remove the targets of tools from the session and day of a call whose text is removed.

    The caller holds the write lock."""
    row = connection.execute(
        f"select substr(u.created_at, 1, 10), {unnamed_sessions.SESSION}"  # noqa: S608 - our own text
        " from usage as u where u.id = ?",
        (usage_id,),
    ).fetchone()
    if row is not None and row[1] is not None:
        day, session_id = row
        rows = connection.execute(_TARGETS_ON_DAY, (day, session_id))
        _change_targets(connection, session_id, day, _make_targets(rows), {})


def _has_costs(connection: sqlite3.Connection, session_id: str) -> bool:
    tools = _read_tools(connection, session_id).values()
    return any(each.cents > 0 for each in tools)


def _read_tools(
    connection: sqlite3.Connection, session_id: str, first_day: str = ""
) -> dict[ToolKey, ToolSums]:
    rows = connection.execute(_TOOLS_OF_SESSION, {"session_id": session_id, "first_day": first_day})
    return {row[:5]: ToolSums.of(row[5:11], histograms.unpack(row[11])) for row in rows}


def _read_targets(
    connection: sqlite3.Connection, session_id: str, first_day: str = ""
) -> dict[str, Targets]:
    """Return the targets of a session by day, from ``first_day`` on."""
    rows = connection.execute(
        _TARGETS_OF_SESSION, {"session_id": session_id, "first_day": first_day}
    )
    found: dict[str, Targets] = {}
    for day, *row in rows:
        found.setdefault(day, {})[TargetKey(*row[:5])] = TargetSums(*row[5:])
    return found


def _change_tools(
    connection: sqlite3.Connection,
    session_id: str,
    old: Mapping[ToolKey, ToolSums],
    new: Mapping[ToolKey, ToolSums],
) -> None:
    """Store the tools of a session in place of the old ones, and add the difference to the days."""
    gone, put = _compare(old, new)
    if not gone and not put:
        return
    connection.executemany(_DELETE_TOOL, [(*key, session_id) for key in gone])
    connection.executemany(
        _PUT_TOOL,
        [(*key, session_id, *new[key].columns, histograms.pack(new[key].sizes)) for key in put],
    )
    differences = []
    for key in (*gone, *put):
        after, before = new.get(key, NO_SUMS), old.get(key, NO_SUMS)
        pairs = zip(after.columns, before.columns, strict=True)
        differences.append((*key, *(one - other for one, other in pairs)))
        _change_sizes(connection, key, after.sizes - before.sizes)
    connection.executemany(_ADD_TOOL, differences)
    connection.executemany(_REMOVE_EMPTY, gone)


def _change_sizes(connection: sqlite3.Connection, key: ToolKey, change: int) -> None:
    """Add ``change``, the difference of two histograms, to those of a day.

    SQL cannot add histograms, so there is one for each choice of an endpoint, a credential, both or
    neither."""
    if not change:
        return
    day, slug, credential, *tool = key
    for chosen in product((slug, ALL), (credential, ALL)):
        names = (day, *chosen, *tool)
        (stored,) = connection.execute(_FIND_SIZES, names).fetchone() or (b"",)
        if (sizes := histograms.unpack(stored) + change) > 0:
            connection.execute(_PUT_SIZES, (*names, histograms.pack(sizes)))
        else:
            connection.execute(_DELETE_SIZES, names)


def _change_targets(
    connection: sqlite3.Connection,
    session_id: str,
    day: str,
    old: Mapping[TargetKey, TargetSums],
    new: Mapping[TargetKey, TargetSums],
) -> None:
    """Store the targets of a session on a day, and add the difference to those of the day."""
    gone, put = _compare(old, new)
    if not gone and not put:
        return
    connection.executemany(_DELETE_TARGET, [(day, *key, session_id) for key in gone])
    connection.executemany(_PUT_TARGET, [(day, *key, session_id, *new[key][1:]) for key in put])
    before = _make_targets(connection.execute(_TARGETS_OF_DAY, (day,)))
    after = dict(before)
    removed = {key: old[key] for key in (*gone, *put) if key in old}
    change_targets(after, {key: new[key] for key in put}, removed)
    gone, put = _compare(before, after)
    connection.executemany(_DELETE_DAILY, [(day, *key) for key in gone])
    connection.executemany(_PUT_DAILY, [(day, *key, *after[key]) for key in put])


def _make_targets(rows: Iterable[Sequence[Any]]) -> Targets:
    return {TargetKey(*row[:5]): TargetSums(*row[5:]) for row in rows}


def _compare[Key: Hashable, Sums](
    old: Mapping[Key, Sums], new: Mapping[Key, Sums]
) -> tuple[list[Key], list[Key]]:
    """Return the keys that are only in ``old``, and those that are new or have other sums."""
    gone = [key for key in old if key not in new]
    return gone, [key for key, sums in new.items() if old.get(key) != sums]


def _sum_tools(sums: SumsOfTargets) -> dict[ToolKey, ToolSums]:
    tools: dict[ToolKey, ToolSums] = {}
    for (payer, target), each in sums.items():
        tools.setdefault((*payer, target.server, target.tool), ToolSums()).add(each)
    # A tool without a use or a cost, as of a model without a price, would leave an empty row.
    return {key: each for key, each in tools.items() if each != NO_SUMS}


def _choose_targets(sums: SumsOfTargets) -> dict[str, Targets]:
    """Return targets by day: of each payer the most expensive ones, with all others in one row."""
    by_payer: dict[Payer, list[tuple[Target, ToolSums]]] = {}
    for (payer, target), each in sums.items():
        if target.target and each != NO_SUMS:
            by_payer.setdefault(payer, []).append((target, each))
    days: dict[str, Targets] = {}
    for payer, found in by_payer.items():
        found.sort(key=lambda pair: (-pair[1].brought_cents, -pair[1].result_tokens, pair[0]))
        named, others = found[:MAX_TARGETS], ToolSums()
        for _, each in found[MAX_TARGETS:]:
            others.add(each)
        if others.uses:
            named = [*named, (Target("", "", OTHER), others)]
        for target, each in named:
            key = TargetKey(payer.slug, payer.credential, *target)
            days.setdefault(payer.day, {})[key] = _make_target(each)
    return days


def _make_target(sums: ToolSums) -> TargetSums:
    return TargetSums(
        sessions=1,
        uses=sums.uses,
        failed=sums.failed,
        result_tokens=sums.result_tokens,
        written_cents=sums.written_cents,
        carried_cents=sums.carried_cents,
    )
