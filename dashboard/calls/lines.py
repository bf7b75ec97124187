"""The lines of a list of calls: what each call did or why it failed, its figures, and groups of lines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from dashboard.addresses import session_address
from dashboard.formats import name_failure
from dashboard.moments import describe_moment, move
from dashboard.what_was_done import Deed, describe_deed, find_root, sum_known
from metering.entry import NO_ERROR
from metering.refusals import STOP_REASON as REFUSAL
from runtime import clock
from store.traces.calls.listed_calls import ListedSession, Row
from store.traces.calls.tool_uses import StoredUse

_LEFT = "client_disconnected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A call in a list. ``day`` is "" for a call of today. ``deed`` says what the call did, ``failure``
    why it failed, ``cut`` that its response was cut. ``asked`` is the title of the request; "" unless
    the call failed or its line would otherwise equal a neighbour's."""

    row: Row
    day: str
    clock: str
    deed: Deed | None
    failure: str
    cut: str
    asked: str

    @property
    def moment(self) -> str:
        """Return the time of the call: ``14:02:10`` today, ``Thu 19 14:02`` this week, else with the date."""
        return f"{self.day} {self.clock}".lstrip()

    @property
    def words(self) -> tuple[object, ...]:
        """Return the parts of the line that tell what the call did, to compare lines by."""
        return self.deed, self.failure, self.cut, self.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Lines of a session or of one of its agents, or of calls without a session. ``calls`` is the number
    of calls of the whole session, else None. ``cents`` is the cost of the whole session, otherwise of
    the group's lines; None if unknown."""

    title: str
    address: str
    is_agent: bool
    calls: int | None
    cents: float | None
    lines: tuple[Line, ...]


def make_lines(
    rows: Sequence[Row], uses: Mapping[int, Sequence[StoredUse]], at: datetime
) -> list[Line]:
    """Return the lines for rows of calls. ``at`` is the present time, in the zone for displayed times.

    Paths are relative to the common root of their session's files."""
    roots = _find_roots(rows, uses)
    return _tell_apart(
        [_make_line(row, uses.get(row["id"], ()), roots[row["session"]], at) for row in rows]
    )


def group_lines(lines: Iterable[Line], sessions: Mapping[str, ListedSession]) -> list[Group]:
    """Group lines by session and agent, lines without a session by credential and endpoint.

    The groups have the order of their newest calls."""
    found: dict[tuple[str | None, str | None, str], list[Line]] = {}
    for line in lines:
        row = line.row
        apart = (row["agent_id"], "") if row["session"] else (row["credential_hmac"], row["slug"])
        found.setdefault((row["session"], *apart), []).append(line)
    return [_make_group(each, sessions) for each in found.values()]


def describe_failure(row: Row) -> str:
    """Return why a call failed, with the number of its retry; "" if it did not fail."""
    if row["outcome"] in NO_ERROR:
        return ""
    words = name_failure(row["outcome"], row["status_code"], row["error_type"])
    return f"{words}, retry {row['retry_count']}" if row["retry_count"] else words


def _find_roots(
    rows: Sequence[Row], uses: Mapping[int, Sequence[StoredUse]]
) -> dict[str | None, str]:
    targets: dict[str | None, list[str | None]] = {row["session"]: [] for row in rows}
    for row in rows:
        targets[row["session"]] += [use.target for use in uses.get(row["id"], ())]
    return {session: find_root(found) for session, found in targets.items()}


def _make_line(row: Row, uses: Sequence[StoredUse], root: str, at: datetime) -> Line:
    failure = describe_failure(row)
    deed = describe_deed(uses, row["said_text"], stop_reason=row["stop_reason"], root=root)
    day, time = split_time(clock.parse_instant(row["created_at"]), at)
    return Line(
        row=row,
        day=day,
        clock=time,
        deed=None if failure and not uses else deed,
        failure=failure,
        cut=_describe_cut(row),
        asked=row["title_text"] or "" if failure or deed is None else "",
    )


def split_time(instant: datetime, at: datetime) -> tuple[str, str]:
    """Return the day of a call ("" for today) and its time of day, with seconds only for today."""
    there = move(instant, at.tzinfo)
    if there.date() == at.date():
        return "", f"{there:%H:%M:%S}"
    return describe_moment(instant, at), f"{there:%H:%M}"


def _describe_cut(row: Row) -> str:
    if row["stop_reason"] == REFUSAL and not row["said_text"]:
        return "refused"
    if row["outcome"] != _LEFT:
        return ""
    estimated = ", output estimated" if row["usage_source"] == "estimated" else ""
    return f"cut by the client{estimated}"


def _tell_apart(lines: list[Line]) -> list[Line]:
    """Return the lines; those that equal a neighbour get the first words of the user's message."""
    alike = {
        place for place, (one, other) in enumerate(pairwise(lines)) if one.words == other.words
    }
    return [
        replace(line, asked=line.row["title_text"] or "") if {place, place - 1} & alike else line
        for place, line in enumerate(lines)
    ]


def _make_group(lines: Sequence[Line], sessions: Mapping[str, ListedSession]) -> Group:
    session, agent = lines[0].row["session"], lines[0].row["agent_id"]
    is_agent = session is not None and agent is not None
    whole = None if is_agent else sessions.get(session or "")
    title = (whole.title if whole else None) or session or "No session"
    return Group(
        title=(lines[-1].row["title_text"] or f"Subagent {agent}") if is_agent else title,
        address=session_address(session) if session else "",
        is_agent=is_agent,
        calls=whole.calls if whole else None,
        cents=whole.cost_cents if whole else sum_known(line.row["cost_cents"] for line in lines),
        lines=tuple(lines),
    )
