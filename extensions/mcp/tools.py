"""The six tools: what each reads through the management API, and which part of it an agent gets.

Clients of the protocol show agents the docstring of each tool, and the descriptions of its parameters."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, timedelta
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from extensions.mcp.answers import MAX_BYTES, MAX_ROWS, Place, answer
from extensions.mcp.quoting import name, quote
from manage.api import (
    call_operations,
    limit_operations,
    search_operations,
    session_operations,
    usage_operations,
)
from manage.api.usage_operations import UsageGroup, UsageTotals
from manage.cli.backend import Backend, given
from metering.token_counts import NAMES
from runtime import clock
from store.pagination import MAX_LIMIT
from store.traces.search.walk import Role
from store.traces.sessions.session_model import OpenedSession, SessionTurn, UsedTool
from store.traces.sums.usage_report import Grouping

type Open = Callable[[], AbstractContextManager[Backend]]
type Cursor = Annotated[
    str | None, Field(description="next_cursor of the response before, for what it left out.")
]
type Period = Literal["today", "7d", "30d", "month", "all"]

BREAKS, AGENTS, TOOLS = 10, 10, 6  # that are shown of a session and of a turn
PART_CHARS = 3_000
_GROUP_FIELDS: Mapping[Grouping, str] = {"endpoint": "slug", "credential": "credential_hmac"}
_FACTS = (
    "id", "entry_id", "created_at", "outcome", "status_code", "error_type", "stop_reason", "usage_source",
    "billing", "streamed", "duration_ms", "ttfb_ms", "message_count", "tool_count", "max_tokens", *NAMES,
)  # fmt: skip
_NAMED = ("slug", "model", "request_model", "session_id", "agent_id", "client", "project")


class Tools:
    """The tools. Every method raises what ``Backend.call`` raises, and CursorError."""

    def __init__(self, open_backend: Open) -> None:
        """Read through a backend that is opened for each request, in the thread of the request."""
        self._open = open_backend

    def spend(self, period: Period = "7d", by: Grouping = "model", cursor: Cursor = None) -> str:
        """Return what calls cost in a period: totals, and groups of the kind that ``by`` names."""
        first = _find_first_day(period, clock.now().date())
        with self._open() as backend:
            found = backend.call(usage_operations.get_usage, **given(by=by, from_day=first))
        field = _GROUP_FIELDS.get(by, by)
        rows = [{by: _name_group(each, field), **_sum_up(each)} for each in found.groups]
        head = {"period": period, "from": first, "totals": _sum_up(found.totals)}
        return answer(head, "groups", rows, Place.parse(cursor))

    def sessions(
        self,
        order: Annotated[
            Literal["time", "cost"], Field(description="cost: the most expensive of 7 days first.")
        ] = "time",
        since: Annotated[
            str | None, Field(description="Only sessions that ended then or later: ISO 8601.")
        ] = None,
        cursor: Cursor = None,
    ) -> str:
        """Return sessions (conversations of agents) with cost, failures and cache breaks, newest first."""
        place = Place.parse(cursor)
        with self._open() as backend:
            found = backend.call(
                session_operations.list_sessions,
                **given(order=order, since=since, cursor=place.page, limit=MAX_ROWS),
            )
        rows = [
            {
                "session_id": name(each.session_id, "a session id"),
                "title": quote(each.title, "the first prompt of the session"),
                "started_at": each.started_at,
                "ended_at": each.ended_at,
                "calls": each.calls,
                "errors": each.errors,
                "cost_cents": each.cost_cents,
                "cache_breaks": each.cache_breaks,
            }
            for each in found.items
        ]
        return answer({}, "sessions", rows, place, found.next_cursor)

    def session(
        self,
        session_id: Annotated[
            str | None, Field(description="Left out: the session of the newest call.")
        ] = None,
        cursor: Cursor = None,
    ) -> str:
        """Return what one session cost, by agent; what broke its cache, at what price; and its turns."""
        place = Place.parse(cursor)
        with self._open() as backend:
            if session_id is None:
                newest = backend.call(session_operations.list_sessions, limit=1).items
                if not newest:
                    return orjson.dumps({"session": None}).decode()
                session_id = newest[0].session_id
            found = backend.call(session_operations.get_session, session_id)
        head = _describe_session(found) if not place.skipped else {"session_id": session_id}
        rows = [_describe_turn(each) for each in reversed(found.turns)]
        return answer(head, "turns", rows, place)

    def call(
        self,
        call_id: Annotated[str, Field(description="The id of a call, or of its entry.")],
        body: Annotated[
            Literal["request", "response"] | None,
            Field(description="Also a part of this body, as it was recorded."),
        ] = None,
        offset: Annotated[
            int, Field(ge=0, le=1 << 30, description="Where the part begins, in characters.")
        ] = 0,
    ) -> str:
        """Return one call: model, tokens, cost by component, times, outcome, tools, why its cache broke."""
        fields = given(
            body=body, offset=offset if body else None, length=PART_CHARS if body else None
        )
        with self._open() as backend:
            found = backend.call(call_operations.get_call, call_id, **fields)
        row = found.call
        document = {
            **{each: row.get(each) for each in _FACTS},
            **{each: name(row.get(each), f"the column {each}") for each in _NAMED},
            "cost_cents": row.get("cost_cents"),
            "cost_items": [
                {key: each.get(key) for key in ("component", "quantity", "rate_usd", "cents")}
                for each in found.cost_items[:MAX_ROWS]
            ],
            "cache_break": _describe_break(found.cache_break),
            "said": quote(row.get("said_text"), "the response of the call"),
            "tools": [
                _describe_use(each.get("tool"), each.get("target"), each.get("problem"))
                for each in found.tool_uses[:TOOLS]
            ],
        }
        if len(found.tool_uses) > TOOLS:
            document["tools_left_out"] = len(found.tool_uses) - TOOLS
        if found.body is None:
            return orjson.dumps(document).decode()
        origin = f"the {found.body.side} of call {row.get('id')}, from character {offset}"
        return _add_part(document, found.body.text, origin, offset, found.body.next_offset)

    def limits(self, cursor: Cursor = None) -> str:
        """Return how much of each window of a subscription (5h, 7d, …) is used, and when it is reset."""
        with self._open() as backend:
            found = backend.call(limit_operations.list_limits)
        rows = [
            {
                **each.model_dump(exclude={"window", "status", "account"}),
                "account": name(each.account, "a fingerprint"),
                "window": name(each.window, "a header of the upstream"),
                "status": name(each.status, "a header of the upstream"),
            }
            for each in found.items
        ]
        return answer({}, "windows", rows, Place.parse(cursor))

    def search(
        self,
        words: Annotated[
            str, Field(description="All must occur in one text; those in double quotes in a row.")
        ],
        role: Annotated[Role | None, Field(description="Who said it.")] = None,
        session_id: Annotated[str | None, Field(description="Only this session.")] = None,
        cursor: Cursor = None,
    ) -> str:
        """Return snippets of what was said in recorded calls, newest first."""
        with self._open() as backend:
            found = backend.call(
                search_operations.search_calls,
                **given(q=words, role=role, session=session_id, limit=MAX_LIMIT),
            )
        rows = [
            {
                "call_id": each.id,
                "created_at": each.created_at,
                "session_id": name(each.session_id, "a session id"),
                "role": each.role,
                "snippet": quote(each.snippet, f"{each.role} text in call {each.id}"),
                "other_calls": each.other_calls,
            }
            for each in found.items
        ]
        head = {"older_texts_may_match": True} if found.has_more else {}
        return answer(head, "hits", rows, Place.parse(cursor))


def _find_first_day(period: Period, today: date) -> date | None:
    days = {"today": 0, "7d": 6, "30d": 29}
    if period == "all":
        return None
    return today.replace(day=1) if period == "month" else today - timedelta(days=days[period])


def _sum_up(sums: UsageTotals) -> dict[str, Any]:
    fields = ("calls", "errors", *NAMES, "cost_cents", "spend_cents", "estimated_cents", "unpriced")
    return {each: getattr(sums, each) for each in fields}


def _name_group(group: UsageGroup, field: str) -> Any:
    value = getattr(group, field)
    return name(value, f"the {field} of calls") if isinstance(value, str) else value


def _describe_session(found: OpenedSession) -> dict[str, Any]:
    breaks = found.cache_breaks
    ids = {each.entry_id: each.id for each in found.turns}
    head = {
        "session_id": name(found.session_id, "a session id"),
        "title": quote(found.title, "the first prompt of the session"),
        "started_at": found.started_at,
        "ended_at": found.ended_at,
        "calls": found.calls,
        "errors": found.errors,
        "cost_cents": found.cost_cents,
        "agents": [
            {
                "agent_id": name(each.agent_id, "an agent id"),
                "calls": each.calls,
                "cost_cents": each.cost_cents,
            }
            for each in found.agents[:AGENTS]
        ],
        "cache_breaks": [
            {"call_id": ids.get(each.entry_id), **(_describe_break(each.model_dump()) or {})}
            for each in breaks[-BREAKS:]
        ],
    }
    for field, all_of_them, most in (
        ("agents_left_out", found.agents, AGENTS),
        ("cache_breaks_left_out", breaks, BREAKS),
    ):
        if len(all_of_them) > most:
            head[field] = len(all_of_them) - most
    return head


def _describe_break(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "cause": name(found.get("cause"), "a cause"),
        "detail": quote(found.get("detail"), "the two requests that differ"),
        "tokens": found.get("tokens"),
        "extra_cost_cents": found.get("extra_cost_cents"),
        "estimated": bool(found.get("estimated")),
    }


def _describe_turn(turn: SessionTurn) -> dict[str, Any]:
    used: Sequence[UsedTool] = turn.tools
    found: dict[str, Any] = {
        "call_id": turn.id,
        "created_at": turn.created_at,
        "agent_id": name(turn.agent_id, "an agent id"),
        "model": name(turn.model, "a model"),
        "cost_cents": turn.cost_cents,
        "outcome": turn.outcome,
        "tools": [_describe_use(each.tool, each.target, each.problem) for each in used[:TOOLS]],
    }
    if len(used) > TOOLS:
        found["tools_left_out"] = len(used) - TOOLS
    if not used:
        found["said"] = quote(turn.said_text, "the response of the call", 160)
    return found


def _describe_use(tool: str | None, target: str | None, problem: str | None) -> dict[str, Any]:
    return {
        "tool": name(tool, "the response of the call"),
        "target": quote(target, "the response of the call", 120),
        "problem": quote(problem, "the result of the tool", 120),
    }


def _add_part(
    document: Mapping[str, Any], text: str, origin: str, offset: int, next_offset: int | None
) -> str:
    """Return a call as JSON, with as much of a part of a body as fits."""
    while True:
        part = {"body": quote(text, origin, PART_CHARS), "next_offset": next_offset}
        encoded = orjson.dumps({**document, **part})
        if len(encoded) <= MAX_BYTES or len(text) < 2:
            return encoded.decode()
        text = text[: len(text) // 2]
        next_offset = offset + len(text)
