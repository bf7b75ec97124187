"""Databases with a year of calls, made in minutes, for ``bench.pages``.

They are written by the code that the recorder uses, so tables, indexes, sums and bodies are as in
production, and so are the savings and the tools of each session. The calls are spread evenly over the
days up to now: sessions of 300 turns, with prompts, first words, tools, subagents, credentials and tags.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import batched
from pathlib import Path
from random import Random

from metering.entry import CostItem, Outcome, UsageLogEntry
from metering.token_counts import UNKNOWN, TokenCounts
from metering.tool_results import ToolResult
from metering.tool_uses import ToolUse
from recorder.open_databases import OpenDatabases
from recorder.savings import SavingsFinder
from runtime import clock
from store.price_file import load_prices
from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from store.traces.sums import timing_groups

DAYS = 60
BATCH = 5_000
BODY_EVERY = 50  # of a year's calls, those whose bodies retention has left
NEWEST_WITH_BODIES = 200
MODELS = ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4", "gone-1")
SESSION_CALLS, PROMPT_CALLS, AGENT_EVERY, ANSWER_EVERY = 300, 15, 10, 8
ENDPOINTS, CREDENTIALS, PROJECTS, FILES = 12, 40, 25, 400
_PROMPT = "Read the file, then tell what it does. " * 40
_DEFINITION = (
    "Does to the file what its name says, and returns what there was to say about it. " * 3
)
# Of the uses of a session, with the MCP server of each.
_TOOLS: tuple[tuple[str, str | None, int], ...] = (
    ("Read", None, 40),
    ("Bash", None, 30),
    ("Edit", None, 15),
    ("Grep", None, 10),
    ("search_issues", "tracker", 5),
)
type _End = tuple[Outcome, int | None, str | None]
_GOOD: _End = ("complete", 200, None)
_ERRORS: tuple[_End, ...] = (
    ("upstream_error", 529, "overloaded_error"),
    ("upstream_error", 429, "rate_limit_error"),
    ("upstream_error", 400, "invalid_request_error"),
    ("upstream_timeout", None, "timeout_error"),
)


def fill(path: Path, count: int) -> None:
    """Store calls until there are ``count``, calls of an earlier run included."""
    with TraceDatabase(path) as traces:
        there = traces.count_entries()
        for batch in batched(make_entries(count, there), BATCH):
            traces.insert(batch)
        traces.connection.execute("pragma wal_checkpoint(truncate)")


def fill_whole(path: Path, count: int) -> None:
    """Make a database of ``count`` calls, with all that the recorder computes in pauses."""
    make_whole(path, lambda filling: fill(filling, count))


def make_whole(path: Path, record: Callable[[Path], None]) -> None:
    """Make a database: call ``record`` with its path to store calls, then compute what a recorder would."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        filling = trace_path(Path(folder), "bench")
        filling.parent.mkdir(parents=True)
        record(filling)
        _look_for_savings(Path(folder), "bench")
        add_up_times(filling)
        filling.rename(path)


def add_up_times(path: Path) -> None:
    """Add up the times of past days, as the recorder does in its pauses."""
    with TraceDatabase(path) as traces:
        while timing_groups.add_up_next(traces.connection, f"{clock.now().date()}"):
            pass
        traces.connection.execute("pragma wal_checkpoint(truncate)")


def _look_for_savings(data_dir: Path, organization_id: str) -> None:
    """Compute the savings of all sessions, without the pauses that the recorder makes in between."""
    now_s = 0.0
    databases = OpenDatabases(data_dir, RequestPreparer())
    connection = databases.open(organization_id).connection
    with connection:
        connection.execute("update savings_due set due_at = 0")
    finder = SavingsFinder(databases, cache(load_prices), lambda: now_s)
    finder.begin(organization_id)
    while finder.run_step():
        now_s += 1_000.0
    connection.execute("pragma wal_checkpoint(truncate)")
    databases.close_all()


def make_entries(count: int, start: int = 0) -> Iterator[UsageLogEntry]:
    """Yield the calls with numbers from ``start`` up to, and without, ``count``."""
    dice = Random(start)  # noqa: S311 - no secret
    now = clock.now()
    step = timedelta(days=DAYS) / count
    for number in range(start, count):
        has_bodies = number % BODY_EVERY == 0 or number >= count - NEWEST_WITH_BODIES
        yield make_entry(number, now - step * (count - number), dice, has_bodies=has_bodies)


def make_entry(number: int, at: datetime, dice: Random, *, has_bodies: bool) -> UsageLogEntry:
    """Return the call with this number; one in forty has failed."""
    model = dice.choices(MODELS, (60, 25, 10, 4, 1))[0]
    endpoint = number // SESSION_CALLS % ENDPOINTS
    outcome, status, error = dice.choice(_ERRORS) if number % 40 == 0 else _GOOD
    good = outcome == "complete"
    ttfb_ms = dice.lognormvariate(6.5, 0.6)
    cents = Decimal(dice.randrange(1, 9_000)) / 1000
    item = CostItem(
        pass_index=0,
        model=model,
        component="input",
        quantity=900,
        prompt_tokens=40_000,
        rate_usd=Decimal(3),
        multiplier=Decimal(1),
        price_version="2026-01-01",
        cents=cents,
    )
    priced = good and model != "gone-1"
    tools = _use_tools(dice) if good and number % ANSWER_EVERY else ()
    return UsageLogEntry(
        entry_id=f"bench-{number:09}",
        created_at=clock.format_ms(at),
        proxy_endpoint_id=f"pe_{endpoint}",
        slug=f"team-{endpoint}",
        outcome=outcome,
        usage_source="final" if good else "none",
        streamed=number % 3 > 0,
        model=model,
        tokens=_tokens(dice) if good else UNKNOWN,
        cost_cents=cents if priced else None,
        cost_items=(item,) if priced else (),
        duration_ms=ttfb_ms + dice.randrange(30_000),
        ttfb_ms=ttfb_ms,
        proxy_overhead_ms=1.5,
        status_code=status,
        request_body=_request(number) if has_bodies else None,
        response_body=b'{"content": [{"type": "text", "text": "%d"}]}' % number
        if has_bodies
        else None,
        request_model=model,
        upstream_request_id=f"req_{number:09}",
        session_id=f"session-{number // SESSION_CALLS}",
        prompt_id=f"prompt-{number // PROMPT_CALLS}",
        agent_id=f"agent-{number // SESSION_CALLS}" if number % AGENT_EVERY == 0 else None,
        title_text=f"Ticket {number // PROMPT_CALLS}: find out why the night tariff is wrong.",
        said_text=f"That is what file {number} says." if good and not tools else None,
        tool_uses=tools,
        credential_hmac=f"{number // SESSION_CALLS % CREDENTIALS:032x}",
        project=f"project-{number // SESSION_CALLS % PROJECTS}",
        client="claude-cli/2.1.0",
        service_tier="standard",
        retry_count=1 if number % 97 == 0 else 0,
        request_bytes=150_000,
        response_bytes=3_000,
        error_type=error,
    )


def make_plain_entry(number: int, request_body: bytes, session_id: str) -> UsageLogEntry:
    """Return a call with a request body and without other data."""
    return UsageLogEntry(
        entry_id=f"bench-{number:09}",
        created_at=clock.format_ms(clock.now()),
        proxy_endpoint_id="pe_1",
        slug="team-1",
        outcome="complete",
        usage_source="final",
        streamed=False,
        status_code=200,
        session_id=session_id,
        request_body=request_body,
    )


def _tokens(dice: Random) -> TokenCounts:
    return TokenCounts(
        input_tokens=dice.randrange(2_000),
        output_tokens=dice.randrange(4_000),
        cache_creation_input_tokens=dice.randrange(3_000),
        cache_read_input_tokens=dice.randrange(90_000),
    )


def _use_tools(dice: Random) -> tuple[ToolUse, ...]:
    """Return one or two tool uses; one in twenty-five has failed."""
    weights = [weight for *_, weight in _TOOLS]
    return tuple(
        ToolUse(
            tool=tool,
            server=server,
            target=f"src/part/file_{int(dice.paretovariate(0.5)) % FILES}.py",
            result=ToolResult(dice.randrange(3_000), "exit 1" if dice.random() < 0.04 else None),
        )
        for tool, server, _ in dice.choices(_TOOLS, weights, k=dice.choice((1, 1, 2)))
    )


def _request(number: int) -> bytes:
    """Return the request of a call, with the tools and the first messages of its session."""
    session = number // SESSION_CALLS
    tools = [
        {"name": f"mcp__{server}__{name}" if server else name, "description": _DEFINITION}
        for name, server, _ in (*_TOOLS, ("add_comment", "tracker", 0))
    ]
    read = {"type": "tool_use", "id": f"toolu_{session}", "name": "Read"}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{session}", "content": _PROMPT}
    messages: list[dict[str, object]] = [
        {"role": "user", "content": f"{session} {_PROMPT}"},
        {"role": "assistant", "content": [read | {"input": {"file_path": "src/part/file_1.py"}}]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": f"That is file {number}."},
        {"role": "user", "content": "Go on."},
    ]
    return json.dumps({"model": MODELS[0], "tools": tools, "messages": messages}).encode()
