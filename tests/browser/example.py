"""An organisation with the calls of some weeks, for pictures and for tests of every page."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from metering.prices import PriceTable
from metering.reconciliation import Figures, Reported, compare
from runtime.clock import format_seconds, now
from store.control import api_keys, invitations, people
from store.control.database import ControlDatabase
from store.traces.paths import trace_path
from store.traces.reconciliation_file import Reconciliation, write_reconciliation
from store.traces.recorded_usage import read_recorded_usage
from tests.browser.site import Site
from tests.live import messages
from tests.live.messages import Answer, Block, Counts, text, thinking, tool_use
from tests.proxy_endpoints import create_endpoint
from tests.upstream import Script

OWNER = "rosa@nightcab.example"
MEMBERS = ("amir@nightcab.example", "dispatch@nightcab.example")
INVITED = "yuki@nightcab.example"
ORGANIZATION = "Night Cab"
ENDPOINTS = (
    ("Dispatch desk", "dispatch-desk"),
    ("Claude Code", "claude-code"),
    ("Nightly reports", "nightly-reports"),
)
SESSION = "7d1c2a40-5a0e-4c77-9d0f-2f6b54d1e0aa"
TOOLS = (
    {
        "name": "Bash",
        "description": "Runs a command and returns what it prints.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
    {
        "name": "Read",
        "description": "Reads a file.",
        "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
    },
)
TASK = "The test of the night tariff fails since yesterday. Find out why and mend it."
OUTPUT = """FAILED tests/test_tariff.py::test_night_tariff_begins_at_ten
E       assert Decimal('7.40') == Decimal('9.10')
1 failed, 41 passed in 0.83s"""
SOURCE = "def is_night(at: time) -> bool:\n    return at > time(22) or at < time(6)\n"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the example. ``took_s`` and ``ago_min`` are written into its entry."""

    slug: str
    model: str
    answer: Answer | Script
    took_s: float
    ago_min: int
    conversation: tuple[dict[str, Any], ...] = ()
    session: str | None = None
    client: str = "python-sdk/1.4"


def _said(*blocks: Block, **counts: int) -> Answer:
    return Answer(content=blocks, counts=replace(Counts(), **counts))


def _turn(*blocks: Block, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def _result(call_id: str, words: str, *, failed: bool = False) -> Block:
    found: Block = {"type": "tool_result", "tool_use_id": call_id, "content": words}
    return found | {"is_error": True} if failed else found


_RUN = (
    text("I run the tests first."),
    tool_use("Bash", {"command": "pytest -q tests/test_tariff.py"}, block_id="toolu_01"),
)
_READ = (
    thinking("The tariff begins at ten; at ten itself it must hold.", "c2lnbmF0dXJl"),
    text("The limit looks suspicious. I read the rule."),
    tool_use("Read", {"file_path": "cab/tariff.py"}, block_id="toolu_02"),
)
_MENDED = text(
    "The night tariff begins at ten, and `at > time(22)` leaves out ten itself."
    " I changed it to `at >= time(22)`; all 42 tests pass."
)
_FIRST = (_turn(text(TASK)),)
_SECOND = (
    *_FIRST,
    _turn(*_RUN, role="assistant"),
    _turn(_result("toolu_01", OUTPUT, failed=True)),
)
_THIRD = (*_SECOND, _turn(*_READ, role="assistant"), _turn(_result("toolu_02", SOURCE)))


def _code(answer: Answer | Script, took_s: float, ago_min: int, said: Any) -> Call:
    client = "claude-cli/2.1.329 (external, cli)"
    return Call("claude-code", "claude-opus-5-5", answer, took_s, ago_min, said, SESSION, client)


def _ask(words: str) -> tuple[dict[str, Any], ...]:
    return (_turn(text(words)),)


def _by(model: str, answer: Answer) -> list[bytes]:
    return [each.replace(messages.MODEL.encode(), model.encode()) for each in answer.events()]


_CUT = messages.stream_of(_by("claude-sonnet-5", _said(text("The passenger waits at")))[:5])

CALLS = (
    Call(
        "nightly-reports",
        "claude-sonnet-5",
        _said(text("Yesterday 1,204 rides, 3 % more."), input=41_200, output=1_870, read=0),
        24.6,
        96,
        _ask("Sum up yesterday's rides."),
    ),
    Call(
        "dispatch-desk",
        "claude-haiku-4-5",
        _said(text("Two cabs are nearer."), input=611, output=48, read=3_120, write_1h=0),
        0.9,
        74,
        _ask("Which cab for 12 Harbour Road?"),
    ),
    Call(
        "dispatch-desk",
        "claude-haiku-4-5",
        messages.error(429, "rate_limit_error"),
        0.2,
        73,
        _ask("And for 9 Mill Lane?"),
    ),
    Call(
        "dispatch-desk",
        "claude-haiku-4-5",
        _said(text("Cab 17, in four minutes."), input=640, output=31, read=3_120, write_1h=0),
        0.8,
        72,
        _ask("And for 9 Mill Lane?"),
    ),
    _code(_said(*_RUN, input=1_204, output=153, read=20_480), 6.2, 40, _FIRST),
    _code(_said(*_READ, input=310, output=402, read=21_900), 9.8, 38, _SECOND),
    _code(messages.error(529, "overloaded_error"), 1.1, 37, _THIRD),
    _code(_said(_MENDED, input=96, output=377, read=23_050), 8.4, 36, _THIRD),
    Call(
        "nightly-reports",
        "cab-research-preview",
        _said(text("A draft of the winter plan."), input=8_030, output=920, read=0),
        17.3,
        21,
        _ask("Draft the winter plan."),
    ),
    Call(
        "dispatch-desk",
        "claude-sonnet-5",
        _CUT,
        3.1,
        12,
        _ask("Where does the passenger wait?"),
    ),
    Call(
        "dispatch-desk",
        "claude-sonnet-5",
        _said(text("At gate B, in front of the kiosk."), input=702, output=64, read=5_600),
        1.9,
        11,
        _ask("Where does the passenger wait?"),
    ),
    Call(
        "dispatch-desk",
        "claude-haiku-4-5",
        _said(text("Cab 4 is free again."), input=590, output=22, read=3_240, write_1h=0),
        0.7,
        2,
        _ask("Who is free?"),
    ),
)


@dataclass(frozen=True, slots=True)
class Example:
    email: str
    """The address of the user who is signed in."""
    call_id: int
    """The id of the call with a conversation and tools."""
    failed_id: int
    unpriced_id: int
    endpoint_id: str
    key_id: str
    member_id: str

    def pages(self) -> dict[str, str]:
        """Return the address of each kind of page for a signed-in user, by name."""
        call, settings = f"/traces/usage/{self.call_id}", "/settings"
        return {
            "home": "/",
            "overview": "/overview?span=today&by=endpoint",
            "calls": "/traces/usage",
            "calls-by-model": "/traces/usage?_sum_by=model&_facet=model&outcome__notin=complete",
            "call": call,
            "call-context": f"{call}/context",
            "sessions": "/sessions",
            "sessions-by-cost": "/sessions?order=cost",
            "session": f"/sessions/{SESSION}",
            "search": "/search?q=a",
            "savings": "/savings",
            "session-savings": f"/sessions/{SESSION}/savings",
            "session-context": f"/sessions/{SESSION}/context",
            "call-failed": f"/traces/usage/{self.failed_id}",
            "call-unpriced": f"/traces/usage/{self.unpriced_id}",
            "call-request": f"{call}/request/read",
            "call-response": f"{call}/response/read",
            "call-raw": f"{call}/response/raw",
            "replay": f"{call}/replay",
            "compare": f"{call}/compare/{self.call_id - 2}",
            "queries": "/traces",
            "query": "/traces/cost_by_day_and_model",
            "sql": "/traces?sql=select+model,+count(*)+as+calls+from+usage+group+by+model",
            "sql-mistake": "/traces?sql=select+nothing+from+nowhere",
            "columns": "/traces/usage_log",
            "cost-lines": "/traces/usage_cost",
            "help-costs": "/help/costs",
            "reconciliation": "/reconciliation",
            "secrets": "/secrets",
            "settings": settings,
            "endpoint": f"{settings}/endpoints/{self.endpoint_id}",
            "endpoint-delete": f"{settings}/endpoints/{self.endpoint_id}/delete",
            "key-delete": f"{settings}/keys/{self.key_id}/delete",
            "member-remove": f"{settings}/members/{self.member_id}/remove",
            "nowhere": "/nowhere",
        }


def make_example(site: Site) -> Example:
    """Make the example on a service that does not have it yet."""
    with ControlDatabase(site.service.data_dir / "control.db") as control:
        with control.transaction() as db:
            organization = people.create_organization(db, ORGANIZATION)
            owner, *members = (people.create_user(db, each) for each in (OWNER, *MEMBERS))
            people.join(db, organization.id, owner, "owner")
            for member in members:
                people.join(db, organization.id, member, "member")
            keys = [
                api_keys.create(db, organization.id, owner, name)[0]
                for name in ("monthly bill", "Rosa's laptop")
            ]
            invitations.create(db, organization.id, INVITED, OWNER, now())
        endpoints = [
            create_endpoint(control, organization.id, name, slug) for name, slug in ENDPOINTS
        ]
    for number, call in enumerate(CALLS, 1):
        _send(site, call)
        assert sum(site.count_calls(slug) for _, slug in ENDPOINTS) == number
    _reconcile(site.service.data_dir, organization.id)
    _spread_out(site, organization.id)
    numbers = range(1, len(CALLS) + 1)
    return Example(
        email=OWNER,
        call_id=8,
        failed_id=7,
        unpriced_id=next(n for n in numbers if CALLS[n - 1].model.startswith("cab-")),
        endpoint_id=endpoints[0].id,
        key_id=keys[0].id,
        member_id=members[0],
    )


def _send(site: Site, call: Call) -> None:
    request = {
        "model": call.model,
        "max_tokens": 4096,
        "stream": True,
        "system": "You help a cab company at night. Be brief.",
        "tools": list(TOOLS) if call.session else [],
        "messages": list(call.conversation),
    }
    answer = call.answer
    script = answer if isinstance(answer, Script) else messages.stream_of(_by(call.model, answer))
    site.upstream.choose = lambda _request: script
    more = [("User-Agent", call.client)]
    if call.session:
        more.append(("X-Claude-Code-Session-Id", call.session))
    site.call(json.dumps(request).encode(), call.slug, *more)


def _spread_out(site: Site, organization_id: str) -> None:
    """Spread the calls over some hours, and their sums over two weeks. Durations are as models need."""
    path = site.service.data_dir / "traces" / organization_id / "traces.db"
    with closing(sqlite3.connect(path, timeout=10)) as db, db:
        for number, call in enumerate(CALLS, 1):
            db.execute(
                "update usage set duration_ms = ?, ttfb_ms = ?, created_at ="
                " strftime('%Y-%m-%dT%H:%M:%fZ', created_at, ?) where id = ?",
                (call.took_s * 1000, 180 + call.took_s * 90, f"-{call.ago_min} minutes", number),
            )
        columns = [row[1] for row in db.execute("pragma table_info(usage_hourly)")]
        for days in range(1, 14):
            more = 40 + (days * 37) % 50 if days % 7 not in (2, 3) else 9
            values = ", ".join(_as_before(column, days, more) for column in columns)
            db.execute(
                f"insert into usage_hourly select {values} from usage_hourly"  # noqa: S608
                " where hour >= strftime('%Y-%m-%dT00', 'now')"
            )


def _reconcile(data_dir: Path, organization_id: str) -> None:
    """Write the result of ``taximeter reconcile`` where some calls were batches or bypassed the proxy."""
    today = now().date()
    yesterday = today - timedelta(days=1)  # midnight may be in the middle of the calls
    recorded = read_recorded_usage(
        trace_path(data_dir, organization_id), yesterday, today, PriceTable()
    )
    reported = []
    for each in recorded.items:
        seen = Reported(
            day=each.day,
            kind=each.kind,
            model=each.model,
            figures=each.figures,
            workspace_id="wrkspc_01NightCabDispatch",
            api_key_id="apikey_01DispatchDesk",
        )
        reported.append(seen)
        if each.model == "cab-research-preview":
            reported.append(replace(seen, figures=Figures(cost_cents=Decimal("6.25"))))
        if each.model == "claude-haiku-4-5" and each.figures.has_counts:
            reported.append(replace(seen, api_key_id=None, workspace_id=None))
        if each.model == "claude-sonnet-5" and each.figures.has_counts:
            reported.append(replace(seen, service_tier="batch", api_key_id="apikey_01Reports"))
    fare = Figures(cost_cents=Decimal("41.5"))
    reported.append(Reported(day=today, kind="code_execution", model=None, figures=fare))
    result = Reconciliation(
        fetched_at=format_seconds(now()),
        upstream_url="https://api.anthropic.com",
        upstream_organization_id="9c1d3b1e-0000-4000-8000-00000000abcd",
        from_day=yesterday,
        to_day=today,
        comparison=compare(reported, recorded.items, open_day=today, notes=recorded.notes),
    )
    write_reconciliation(data_dir, organization_id, result)


def _as_before(column: str, days: int, more: int) -> str:
    if column == "hour":
        return f"strftime('%Y-%m-%dT%H', hour || ':00', '-{days} days')"
    is_same = column in ("proxy_endpoint_id", "slug", "model", "errors")
    return column if is_same else f"{column} * {more}"
