"""Databases with a year of calls, made in minutes, for ``bench.pages``.

They are written by the code that the recorder uses, so tables, indexes, hourly sums and bodies are
as in production. The calls are spread evenly over the days up to now.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import batched
from pathlib import Path
from random import Random

from metering.entry import CostItem, Outcome, UsageLogEntry
from metering.token_counts import UNKNOWN, TokenCounts
from runtime import clock
from store.traces.database import TraceDatabase

DAYS = 60
BATCH = 5_000
BODY_EVERY = 50  # of a year's calls, those whose bodies retention has left
NEWEST_WITH_BODIES = 200
MODELS = ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5", "claude-sonnet-4", "gone-1")
_PROMPT = "Read the file, then tell what it does. " * 40
type _End = tuple[Outcome, int | None, str | None]
_GOOD: _End = ("complete", 200, None)
_ERRORS: tuple[_End, ...] = (
    ("upstream_error", 529, "overloaded_error"),
    ("upstream_error", 429, "rate_limit_error"),
    ("upstream_error", 400, "invalid_request_error"),
    ("upstream_timeout", None, "timeout_error"),
)


def fill(path: Path, count: int) -> None:
    """Store calls until there are this many. Calls of an earlier run count."""
    with TraceDatabase(path) as traces:
        there = traces.count_entries()
        for batch in batched(_entries(count, there), BATCH):
            traces.insert(batch)
        traces.connection.execute("pragma wal_checkpoint(truncate)")


def _entries(count: int, start: int) -> Iterator[UsageLogEntry]:
    dice = Random(start)  # noqa: S311 - no secret
    now = clock.now()
    step = timedelta(days=DAYS) / count
    for number in range(start, count):
        has_bodies = number % BODY_EVERY == 0 or number >= count - NEWEST_WITH_BODIES
        yield make_entry(number, now - step * (count - number), dice, has_bodies=has_bodies)


def make_entry(number: int, at: datetime, dice: Random, *, has_bodies: bool) -> UsageLogEntry:
    """Return a call; one in forty failed."""
    model = dice.choices(MODELS, (60, 25, 10, 4, 1))[0]
    endpoint = dice.randrange(12)
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
        session_id=f"session-{number // 300}",
        client="claude-cli/2.1.0",
        service_tier="standard",
        retry_count=1 if number % 97 == 0 else 0,
        request_bytes=150_000,
        response_bytes=3_000,
        error_type=error,
    )


def make_plain_entry(number: int, request_body: bytes, session_id: str) -> UsageLogEntry:
    """Return a call that is nothing but its request."""
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


def _request(number: int) -> bytes:
    return (
        '{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "'
        f'{number} {_PROMPT}"}}]}}'
    ).encode()
