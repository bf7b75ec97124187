"""The sums of what tools were used for and what they cost: of each session, and of days.

A look at a session (``recorder.savings``) replaces the rows of the session, and takes the difference into
the sums of its days: to sum up a day anew would hold up recording for longer the more sessions it has. Rows
of days that have left with their calls stay until the session goes with its last call.

Of the targets of a day as many are named as there is room for. One that comes later takes the place of the
least expensive if a session has paid more for it; what is left out is summed up in the row of the others.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from store.traces.sessions import unnamed_sessions

MAX_TARGETS = 200  # of a day, and of a session on a day; the others are one row
OTHER = "(other)"
_USES = (
    "select substr(u.created_at, 1, 10), u.slug, coalesce(u.credential_hmac, ''),"  # noqa: S608 - our own text
    " coalesce(t.server, ''), coalesce(t.tool, ''), coalesce(t.target, ''),"
    " count(*), sum(t.problem is not null), coalesce(sum(t.result_tokens), 0)"
    " from usage as u join tool_uses as t on t.usage_id = u.id"
    f" where u.id in ({unnamed_sessions.CALLS}) group by 1, 2, 3, 4, 5, 6"
)
_GROUPS = (
    "select u.id, substr(u.created_at, 1, 10), u.slug, coalesce(u.credential_hmac, '')"  # noqa: S608 - our own text
    f" from usage as u where u.id in ({unnamed_sessions.CALLS})"
)
_DAYS = "select distinct day from tools_daily"
_OF_SESSION = f"session_id = :session_id and day in ({_DAYS})"
_KEYS = "day, session_id, slug, credential, server, tool"
_RESULTS = "uses, failed, result_tokens"
_CENTS = "written_cents, carried_cents"
_INSERT_TOOL = (
    f"insert into session_tools ({_KEYS}, {_RESULTS}, definition_cents, {_CENTS})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_TARGET = (
    f"insert into session_tool_targets ({_KEYS}, target, {_RESULTS}, {_CENTS})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_OF_TOOL = "day, slug, credential, server, tool"
_SUMS_OF_TOOL = f"{_RESULTS}, definition_cents, {_CENTS}"
# With a sign of -1, what was added is taken out.
_ADD_TOOLS = (
    f"insert into tools_daily ({_OF_TOOL}, {_SUMS_OF_TOOL})"  # noqa: S608 - our own text
    f" select {_OF_TOOL}, :sign * uses, :sign * failed, :sign * result_tokens,"
    " :sign * definition_cents, :sign * written_cents, :sign * carried_cents"
    " from session_tools where day = :day and session_id = :session_id"
    f" on conflict ({_OF_TOOL}) do update set "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS_OF_TOOL.split(", "))
)
# Sums of floats that are taken out again leave digits that mean nothing.
_REMOVE_EMPTY = (
    "delete from tools_daily where day = ? and uses <= 0 and result_tokens <= 0"
    " and definition_cents + written_cents + carried_cents < 1e-9"
)
_OF_TARGET = "slug, credential, server, tool, target"
_TARGETS_OF_DAY = (
    f"select {_OF_TARGET}, sessions, {_RESULTS}, {_CENTS} from tool_targets_daily where day = ?"  # noqa: S608 - our own text
)
_TARGETS_OF_SESSION = (
    f"select {_OF_TARGET}, 1, {_RESULTS}, {_CENTS} from session_tool_targets"  # noqa: S608 - our own text
    " where day = ? and session_id = ?"
)
_INSERT_DAILY = (
    f"insert into tool_targets_daily (day, {_OF_TARGET}, sessions, {_RESULTS}, {_CENTS})"  # noqa: S608 - our own text
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Payer(NamedTuple):
    """Whose calls are summed up together: those of one day, endpoint and credential ('' for none)."""

    day: str
    slug: str
    credential: str


class Target(NamedTuple):
    """A tool of a server with what it was used upon, '' for what is not there."""

    server: str
    tool: str
    target: str


@dataclass(slots=True)
class ToolSums:
    """Sums of uses. Costs are in US cents, of tokens with a known price."""

    uses: int = 0
    failed: int = 0
    result_tokens: int = 0
    definition_cents: float = 0.0
    written_cents: float = 0.0
    carried_cents: float = 0.0

    @property
    def brought_cents(self) -> float:
        """Return what the results cost."""
        return self.written_cents + self.carried_cents

    def add(self, other: "ToolSums") -> None:
        """Add other sums to these."""
        self.uses += other.uses
        self.failed += other.failed
        self.result_tokens += other.result_tokens
        self.definition_cents += other.definition_cents
        self.written_cents += other.written_cents
        self.carried_cents += other.carried_cents


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
        """Return the row of the targets without one of their own."""
        return self._replace(server="", tool="", target=OTHER)


class TargetSums(NamedTuple):
    """The sums of a target on a day, or of one session there."""

    sessions: int
    uses: int
    failed: int
    result_tokens: int
    written_cents: float
    carried_cents: float

    @property
    def cents(self) -> float:
        """Return what its results cost."""
        return self.written_cents + self.carried_cents

    def plus(self, other: "TargetSums", sign: int = 1) -> "TargetSums":
        """Return the sum of both, or with a sign of -1 the difference, where nothing is below 0."""
        return TargetSums(
            max(self.sessions + sign * other.sessions, 0),
            max(self.uses + sign * other.uses, 0),
            max(self.failed + sign * other.failed, 0),
            max(self.result_tokens + sign * other.result_tokens, 0),
            max(self.written_cents + sign * other.written_cents, 0.0),
            max(self.carried_cents + sign * other.carried_cents, 0.0),
        )


type Targets = dict[TargetKey, TargetSums]
NO_TARGETS: Mapping[TargetKey, TargetSums] = MappingProxyType({})


def change_targets(
    targets: Targets,
    added: Mapping[TargetKey, TargetSums],
    removed: Mapping[TargetKey, TargetSums] = NO_TARGETS,
) -> None:
    """Add the targets of a session to those of a day, and take out what it had there before."""
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
    """Return for whom the calls of a session are summed up, by their row ids."""
    rows = connection.execute(_GROUPS, unnamed_sessions.bind(session_id))
    return {usage_id: Payer(*payer) for usage_id, *payer in rows}


def read_uses(
    connection: sqlite3.Connection, session_id: str
) -> dict[tuple[Payer, Target], ToolSums]:
    """Return the uses of tools in a session, without their costs."""
    rows = connection.execute(_USES, unnamed_sessions.bind(session_id))
    return {(Payer(*row[:3]), Target(*row[3:6])): ToolSums(*row[6:]) for row in rows}


def write_session(
    connection: sqlite3.Connection,
    session_id: str,
    first_day: str,
    sums: SumsOfTargets,
    *,
    has_costs: bool,
) -> None:
    """Store the sums of a session from ``first_day`` on in the place of those that were there.

    Without costs, as when the texts are gone that they are computed from, those that have some stay. The
    caller holds the write lock."""
    if not has_costs and _has_costs(connection, session_id):
        return
    for day in _list_days(connection, session_id):
        if day >= first_day:
            _remove_day(connection, session_id, day)
    connection.executemany(_INSERT_TOOL, _list_tool_rows(session_id, sums))
    connection.executemany(_INSERT_TARGET, _list_target_rows(session_id, sums))
    for day in {payer.day for payer, _ in sums}:
        connection.execute(_ADD_TOOLS, {"day": day, "session_id": session_id, "sign": 1})
        _change_targets(connection, day, added=_read_targets(connection, day, session_id))


def remove_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove the sums of a session. The caller holds the write lock."""
    for day in _list_days(connection, session_id):
        _remove_day(connection, session_id, day)


def forget_targets(connection: sqlite3.Connection, usage_id: int) -> None:
    """Remove what tools were used upon in the session and on the day of a call whose text is removed.

    The caller holds the write lock."""
    row = connection.execute(
        f"select substr(u.created_at, 1, 10), {unnamed_sessions.SESSION}"  # noqa: S608 - our own text
        " from usage as u where u.id = ?",
        (usage_id,),
    ).fetchone()
    if row is not None and row[1] is not None:
        _remove_targets(connection, session_id=row[1], day=row[0])


def _list_days(connection: sqlite3.Connection, session_id: str) -> set[str]:
    rows = connection.execute(
        f"select distinct day from session_tools where {_OF_SESSION}",  # noqa: S608 - our own text
        {"session_id": session_id},
    )
    return {day for (day,) in rows}


def _has_costs(connection: sqlite3.Connection, session_id: str) -> bool:
    row = connection.execute(
        f"select 1 from session_tools where {_OF_SESSION}"  # noqa: S608 - our own text
        " and definition_cents + written_cents + carried_cents > 0 limit 1",
        {"session_id": session_id},
    ).fetchone()
    return row is not None


def _remove_day(connection: sqlite3.Connection, session_id: str, day: str) -> None:
    """Remove a day of a session, and take it out of the sums of the day."""
    values = {"day": day, "session_id": session_id}
    connection.execute(_ADD_TOOLS, values | {"sign": -1})
    connection.execute(_REMOVE_EMPTY, (day,))
    connection.execute(
        "delete from session_tools where day = :day and session_id = :session_id", values
    )
    _remove_targets(connection, session_id, day)


def _remove_targets(connection: sqlite3.Connection, session_id: str, day: str) -> None:
    removed = _read_targets(connection, day, session_id)
    connection.execute(
        "delete from session_tool_targets where day = ? and session_id = ?", (day, session_id)
    )
    _change_targets(connection, day, removed=removed)


def _read_targets(connection: sqlite3.Connection, day: str, session_id: str) -> Targets:
    return _make_targets(connection.execute(_TARGETS_OF_SESSION, (day, session_id)))


def _make_targets(rows: Iterable[Sequence[Any]]) -> Targets:
    return {TargetKey(*row[:5]): TargetSums(*row[5:]) for row in rows}


def _change_targets(
    connection: sqlite3.Connection,
    day: str,
    *,
    added: Mapping[TargetKey, TargetSums] = NO_TARGETS,
    removed: Mapping[TargetKey, TargetSums] = NO_TARGETS,
) -> None:
    if not added and not removed:
        return
    targets = _make_targets(connection.execute(_TARGETS_OF_DAY, (day,)))
    change_targets(targets, added, removed)
    connection.execute("delete from tool_targets_daily where day = ?", (day,))
    connection.executemany(_INSERT_DAILY, [(day, *key, *sums) for key, sums in targets.items()])


def _list_tool_rows(session_id: str, sums: SumsOfTargets) -> list[tuple[object, ...]]:
    tools: dict[tuple[Payer, str, str], ToolSums] = {}
    for (payer, target), each in sums.items():
        tools.setdefault((payer, target.server, target.tool), ToolSums()).add(each)
    return [
        (
            *_place(payer, session_id),
            server,
            tool,
            each.uses,
            each.failed,
            each.result_tokens,
            each.definition_cents,
            each.written_cents,
            each.carried_cents,
        )
        for (payer, server, tool), each in tools.items()
    ]


def _list_target_rows(session_id: str, sums: SumsOfTargets) -> Iterable[tuple[object, ...]]:
    """Return the rows of targets: of each payer the most expensive ones, and one of all others."""
    by_payer: dict[Payer, list[tuple[Target, ToolSums]]] = {}
    for (payer, target), each in sums.items():
        if target.target:
            by_payer.setdefault(payer, []).append((target, each))
    for payer, found in by_payer.items():
        found.sort(key=lambda pair: (-pair[1].brought_cents, -pair[1].result_tokens, pair[0]))
        named, others = found[:MAX_TARGETS], ToolSums()
        for _, each in found[MAX_TARGETS:]:
            others.add(each)
        if others.uses:
            named = [*named, (Target("", "", OTHER), others)]
        for target, each in named:
            yield (
                *_place(payer, session_id),
                *target,
                each.uses,
                each.failed,
                each.result_tokens,
                each.written_cents,
                each.carried_cents,
            )


def _place(payer: Payer, session_id: str) -> tuple[str, ...]:
    return payer.day, session_id, payer.slug, payer.credential
