"""Reading of sessions: the list, and one session with its agents and turns."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metering.entry import NO_ERROR
from metering.token_counts import NAMES, TokenCounts
from runtime import clock
from store.database import bind_list, list_columns
from store.traces import annotations
from store.traces.annotations import Annotations
from store.traces.calls import cache_breaks
from store.traces.calls.cache_breaks import BrokenCall, CacheBreak
from store.traces.sessions import session_figures, unnamed_sessions
from store.traces.sessions.deeds import Deeds, read_deeds
from store.traces.sessions.session_figures import SessionFigures, ToolCost

# A session with more is rare; reading so many takes some 0.1 s.
MAX_TURNS = 2_000
MAX_AGENTS = 500
COUNTED = 2_000  # of the newest sessions have their values counted
EVERY_SESSION: tuple[str, Sequence[str | float]] = ("true", ())
SIDE_CALL = "auxiliary"  # the class of requests that are no turns
_SUMS = (
    "session_id, title, started_at, ended_at, slug, client, peak_prompt_tokens, calls, errors, unpriced,"
    f" cache_breaks, prompts, failed_tools, credential_hmac, cost_cents, estimated_cents, value_cents, {', '.join(NAMES)}"
)
_TURN = (
    "u.id, entry_id, agent_id, parent_agent_id, created_at, model, request_model, outcome, status_code,"
    " error_type, stop_reason, usage_source, message_count, title_text, request_class, prompt_id,"
    f" duration_ms, ttfb_ms, cost_cents, estimated_cents, {', '.join(NAMES)}, p.previous_id, p.failed_tools"
)
_CHANGED = "changed_by_upstream"  # which a database lacks that no newer recorder has opened yet
_OF_SESSION = f"u.id in ({unnamed_sessions.CALLS})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The sums of a session. Cost and value are in US cents.

    ``prompts`` is the number of prompts of a person, ``failed_tools`` the number of failed uses of
    tools; both are 0 for calls from before they were counted. ``credential_hmac`` is that of the call
    that ended last."""

    session_id: str
    title: str | None
    started_at: str
    ended_at: str
    slug: str
    client: str | None
    peak_prompt_tokens: int
    calls: int
    errors: int
    unpriced: int
    cache_breaks: int
    prompts: int = 0
    failed_tools: int = 0
    credential_hmac: str | None = None
    cost_cents: float
    estimated_cents: float
    value_cents: float
    tokens: TokenCounts

    @property
    def failed(self) -> int:
        """Return the number of failed calls and failed uses of tools."""
        return self.errors + self.failed_tools

    @property
    def is_unnamed(self) -> bool:
        """Return whether the client sent no session id."""
        return unnamed_sessions.parse_first_id(self.session_id) is not None

    @property
    def lasted_ms(self) -> float:
        """Return the time from the first request to the last response."""
        lasted = clock.parse_instant(self.ended_at) - clock.parse_instant(self.started_at)
        return lasted.total_seconds() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The main agent (``agent_id`` None) or a subagent of a session, with the sums of its calls."""

    agent_id: str | None
    parent_agent_id: str | None
    started_at: str
    calls: int
    errors: int
    cost_cents: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One call of a session.

    ``new_messages`` is the number of messages that its request has more than the request of the call
    that it continues or, if that is unknown, of the last successful turn of the same agent and model;
    None for the first one. ``failed_tools`` are the names of tools with a new result that is an error.
    ``changed_by_upstream`` is the column of that name. ``cents`` are the costs by component
    (``metering/components.py``)."""

    id: int
    entry_id: str
    agent_id: str | None
    parent_agent_id: str | None
    created_at: str
    model: str | None
    request_model: str | None
    outcome: str
    status_code: int | None
    error_type: str | None
    stop_reason: str | None
    usage_source: str
    message_count: int | None
    title_text: str | None
    request_class: str | None
    prompt_id: str | None
    duration_ms: float | None
    ttfb_ms: float | None
    cost_cents: float | None
    estimated_cents: float | None
    tokens: TokenCounts
    new_messages: int | None
    cents: dict[str, float]
    previous_id: int | None
    failed_tools: str | None
    changed_by_upstream: str | None
    cache_break: CacheBreak | None

    @property
    def is_shortened(self) -> bool:
        """Return whether the history was shortened, for example by a compaction, and no call is continued."""
        return self.previous_id is None and self.new_messages is not None and self.new_messages < 0

    @property
    def has_failure(self) -> bool:
        """Return whether the call failed, or its request has the result of a tool that failed.

        A client that disconnects is not a failure."""
        return self.outcome not in NO_ERROR or self.failed_tools is not None


class SessionReader:
    """A reader of the sessions of one organisation by a read-only connection.

    Every method may raise sqlite3.Error."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Read by ``db``, which the caller closes."""
        self._connection = db
        self._db = db.cursor()
        self._db.row_factory = sqlite3.Row

    @property
    def is_ready(self) -> bool:
        """Return whether the recorder has created the tables of sessions."""
        return "failed_tools" in list_columns(self._connection, "sessions")

    def find_last_id(self) -> int:
        """Return the row id of the newest call, or 0."""
        (last_id,) = self._db.execute("select coalesce(max(id), 0) from usage").fetchone()
        return int(last_id)

    def list_sessions(
        self,
        limit: int,
        before: tuple[str, str] | None = None,
        where: tuple[str, Sequence[str | float]] = EVERY_SESSION,
        last: tuple[str, str] | None = None,
    ) -> list[Session]:
        """Return the sessions that ended last, newest first, up to ``limit``.

        They come after the place ``before`` and not after the place ``last``; a place is (``ended_at``,
        ``session_id``). ``where`` is an SQL condition with the values of its placeholders."""
        condition, values = where
        if before is not None:
            condition = f"{condition} and (ended_at, session_id) < (?, ?)"
        if last is not None:
            condition = f"{condition} and (ended_at, session_id) >= (?, ?)"
        rows = self._db.execute(
            f"select {_SUMS} from sessions where {condition}"  # noqa: S608 - our own text
            " order by ended_at desc, session_id desc limit ?",
            (*values, *(before or ()), *(last or ()), limit),
        )
        return [_make_session(row) for row in rows]

    def find_end(self, calls: int, before: tuple[str, str] | None = None) -> tuple[str, str] | None:
        """Return the place of the session up to which those after ``before`` have ``calls`` calls together.

        None if all have fewer together."""
        is_behind = "" if before is None else " where (ended_at, session_id) < (?, ?)"
        rows = self._db.execute(
            f"select ended_at, session_id, calls from sessions{is_behind}"  # noqa: S608 - our own text
            " order by ended_at desc, session_id desc",
            before or (),
        )
        for ended_at, session_id, count in rows:
            calls -= count
            if calls <= 0:
                return ended_at, session_id
        return None

    def list_most_expensive(
        self, since: str, limit: int, where: tuple[str, Sequence[str | float]] = EVERY_SESSION
    ) -> list[Session]:
        """Return the sessions that ended at ``since`` or later, the most expensive first.

        ``where`` is as for ``list_sessions``."""
        condition, values = where
        rows = self._db.execute(
            f"select {_SUMS} from sessions where ended_at >= ? and {condition}"  # noqa: S608 - our own text
            " order by cost_cents desc, ended_at desc, session_id limit ?",
            (since, *values, limit),
        )
        return [_make_session(row) for row in rows]

    def count_values(self, column: str, limit: int) -> list[tuple[str, int]]:
        """Return (value, number of sessions) for a column of the newest sessions, the most frequent first."""
        rows = self._db.execute(
            f"select value, count(*) from (select {column} as value from sessions"  # noqa: S608 - our own names
            " order by ended_at desc limit ?) where value is not null group by 1 order by 2 desc, 1 limit ?",
            (COUNTED, limit),
        )
        return [(str(value), int(count)) for value, count in rows]

    def list_values(self, column: str, limit: int) -> list[str]:
        """Return up to ``limit`` different values of an indexed column of calls, sorted. Reads one row for
        each."""
        found: list[str] = []
        while len(found) < limit:
            (value,) = self._db.execute(
                f"select min({column}) from usage where {column} > ?",  # noqa: S608 - our own names
                (found[-1] if found else "",),
            ).fetchone()
            if value is None:
                break
            found.append(value)
        return found

    def find(self, session_id: str) -> Session | None:
        """Return the session with this id, or None."""
        row = self._db.execute(
            f"select {_SUMS} from sessions where session_id = ?",  # noqa: S608 - our own text
            (session_id,),
        ).fetchone()
        return None if row is None else _make_session(row)

    def list_agents(self, session_id: str) -> list[Agent]:
        """Return the first agents of a session, in the order in which they began.

        Their sums are those of the calls that were not removed."""
        rows = self._db.execute(
            "select agent_id, max(parent_agent_id) as parent_agent_id, min(created_at) as started_at,"  # noqa: S608 - our own text
            " count(*) as calls, sum(outcome not in (:complete, :left)) as errors, total(cost_cents) as cost_cents"
            f" from usage as u where {_OF_SESSION} group by agent_id order by 3, 1 limit :limit",
            unnamed_sessions.bind(session_id)
            | {"complete": NO_ERROR[0], "left": NO_ERROR[1], "limit": MAX_AGENTS},
        )
        return [Agent(**dict(row)) for row in rows]

    def list_turns(self, session_id: str, limit: int = MAX_TURNS) -> list[Turn]:
        """Return the last turns of a session, oldest first."""
        changed = _CHANGED if _CHANGED in list_columns(self._connection, "usage") else "null"
        rows = self._db.execute(
            f"select {_TURN}, {changed} as {_CHANGED} from usage as u left join predecessors as p on p.usage_id = u.id"  # noqa: S608 - our own text
            f" where {_OF_SESSION} order by created_at desc, u.id desc limit :limit",
            unnamed_sessions.bind(session_id) | {"limit": limit},
        ).fetchall()[::-1]
        # To find a value of a Row by its name takes the longer the more columns are before it.
        names = tuple(rows[0].keys()) if rows else ()
        calls = [dict(zip(names, row, strict=True)) for row in rows]
        ids = [call["id"] for call in calls]
        cents = self._read_cents(ids)
        breaks = {each.usage_id: each.found for each in self.list_breaks(session_id)}
        added = _count_new_messages(calls)
        return [
            Turn(
                tokens=TokenCounts(**{name: call.pop(name) for name in NAMES}),
                **call,
                new_messages=new_messages,
                cents=cents.get(call["id"], {}),
                cache_break=breaks.get(call["id"]),
            )
            for call, new_messages in zip(calls, added, strict=True)
        ]

    def read_deeds(self, turns: Sequence[Turn]) -> Deeds:
        """Return the tool uses, the first words and the agent types of turns. Raises sqlite3.Error."""
        return read_deeds(self._connection, [turn.id for turn in turns])

    def read_figures(self, session_id: str) -> SessionFigures:
        """Return the figures in the tabs of a session."""
        return session_figures.read_figures(self._connection, session_id)

    def list_tool_costs(self, session: Session) -> list[ToolCost]:
        """Return the cost of each tool of a session, the most expensive first."""
        return session_figures.list_tool_costs(
            self._connection, session.session_id, session.started_at, session.ended_at
        )

    def read_annotations(self, session_id: str) -> Annotations:
        """Return the labels and the note of a session."""
        return annotations.read_of_session(self._connection, session_id)

    def list_labels(self, sessions: Sequence[Session]) -> Mapping[str, Sequence[str]]:
        """Return the labels of those sessions that have any, by session id."""
        ids = [each.session_id for each in sessions]
        return annotations.list_labels_of_sessions(self._connection, ids)

    def list_all_labels(self, limit: int) -> list[str]:
        """Return up to ``limit`` labels of sessions and calls, the most frequent first."""
        if not list_columns(self._connection, "labels"):
            return []
        return [label for label, _ in annotations.count_labels(self._connection, limit)]

    def list_breaks(self, session_id: str) -> list[BrokenCall]:
        """Return the calls of a session that broke the cache, in the order of arrival."""
        return cache_breaks.read_session_breaks(self._connection, session_id)

    def _read_cents(self, ids: list[int]) -> dict[int, dict[str, float]]:
        """Return the costs of calls by row id and component, without line items of unknown price."""
        found: dict[int, dict[str, float]] = {}
        for usage_id, component, cents in self._db.execute(
            "select usage_id, component, sum(cents) from usage_cost"
            " where usage_id in (select value from json_each(?)) and cents is not null group by 1, 2",
            (bind_list(ids),),
        ):
            found.setdefault(usage_id, {})[component] = cents
        return found


def _make_session(row: sqlite3.Row) -> Session:
    return Session(**_scalars(row), tokens=TokenCounts.from_row(row))


def _scalars(row: sqlite3.Row) -> dict[str, Any]:
    """Return the values of a row by name, without token counts, which are one field."""
    return {name: row[name] for name in row.keys() if name not in NAMES}  # noqa: SIM118 - a Row has no names in it


def _count_new_messages(rows: Sequence[Mapping[str, Any]]) -> list[int | None]:
    last: dict[tuple[str | None, str | None], int] = {}
    by_id: dict[int | None, int] = {}
    counts: list[int | None] = []
    for row in rows:
        # A request for a title comes before the first turn, with the same message and a smaller model.
        like, count = (row["agent_id"], row["request_model"]), row["message_count"]
        before = by_id.get(row["previous_id"], last.get(like))
        counts.append(None if before is None or count is None else count - before)
        is_side_call = row["request_class"] == SIDE_CALL
        if count is not None and row["outcome"] in NO_ERROR and not is_side_call:
            last[like] = count
        if count is not None:
            by_id[row["id"]] = count
    return counts
