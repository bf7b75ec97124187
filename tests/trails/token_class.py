"""A class of tokens: ``audio_tokens``, which the model reads and upstream bills at a rate of its own."""

from tests.trails.copies import Copy, Trail

FIELD = """
    audio_tokens: int | None = _declare(
        TokenClass(
            title="Audio",
            about="Tokens of audio that the model heard.",
            in_prompt=True,
            label="audio",
            color="s4",
            in_reports=("audio_tokens",),
        )
    )
"""
MIGRATION = '''

@migrations()
def m099_audio_tokens(db: Database) -> None:
    """Count tokens of audio."""
    add_token_class(db, "audio_tokens")
'''
COMPONENT = """
    TokenComponent(
        name="audio",
        title="Audio",
        base_price="input_audio_mtok",
        counted_in="audio_tokens",
        quantity=lambda billed: billed.tokens.audio_tokens,
    ),
"""
CHECK = """
import sqlite3
from contextlib import closing
from datetime import date

from extensions.reconcile.shapes import UsageItem
from extensions.reconcile.tests.test_reports import usage_item
from manage.metrics.exposition import _make_counters
from metering.components import TOKEN_COMPONENTS
from metering.price_format import parse_price_file
from metering.prices import PriceTable
from recorder.record import make_entry
from recorder.requests import RequestReader
from store.traces.database import TraceDatabase
from store.traces.sums.counters import read_counters
from tests.recorder.test_record import DOCUMENT, exchange

RATES = "".join(f"{each.name} = 1\\n" for each in TOKEN_COMPONENTS)
PRICES = PriceTable(
    parse_price_file(f"[[models]]\\nmatch = 'claude-opus-5'\\nstarts = 2020-01-01\\n{RATES}", "p.toml")
)
ANSWER = (
    b'{"type": "message", "model": "claude-opus-5",'
    b' "usage": {"input_tokens": 10, "output_tokens": 20, "audio_tokens": 1000000}}'
)
TABLES = (
    "usage", "usage_hourly", "usage_daily", "sessions", "agents_daily", "call_counters", "tags_hourly"
)


def test_audio_is_counted_wherever_tokens_are(ann):
    response = exchange(ANSWER, DOCUMENT, head={"session_id": "s", "project": "shop"})
    entry = make_entry(response, PRICES, RequestReader())
    assert entry.tokens.prompt == 1_000_010
    assert entry.cost_cents >= 100
    with TraceDatabase(ann.path) as traces:
        traces.insert([entry])
        assert list(traces.verify()) == []
    with closing(sqlite3.connect(ann.path)) as db:
        for table in (*TABLES, "usage_log", "usage_days"):
            assert db.execute(f"select sum(audio_tokens) from {table}").fetchone() == (1_000_000,)
    _, tokens, _ = _make_counters(read_counters(ann.path), None)
    assert {"audio": 1_000_000}.items() <= {
        sample.labels["kind"]: sample.value for sample in tokens.samples
    }.items()
    span = "2026-11-20..2026-11-20"
    assert ann.get(f"/overview.json?span={span}").json()["totals"]["audio_tokens"] == 1_000_000
    kinds = ann.get(f"/?measure=tokens&by=kind&period={span}").text
    assert '<span class="sw s4"></span> <bdi>Audio</bdi>' in kinds
    assert '<span class="sw s4"></span>Audio' in ann.get("/sessions/s").text
    assert '<span class="sw s4"></span> Audio' in ann.get("/calls/1/cost").text
    usage = ann.get("/api/usage", **ann.bearer).json()
    assert usage["totals"]["audio_tokens"] == 1_000_000
    (reported,) = UsageItem(**usage_item(audio_tokens=7)).to_reported(date(2026, 11, 20))
    assert reported.figures.tokens.audio_tokens == 7
"""


def walk(copy: Copy) -> None:
    copy.insert(
        "metering/token_counts.py",
        FIELD,
        after='            in_reports=("cache_read_input_tokens",),\n        )\n    )',
    )
    copy.append("store/traces/schema.py", MIGRATION)
    copy.insert("metering/components.py", COMPONENT.lstrip("\n"), before="    OUTPUT,\n)")


TRAIL = Trail(
    heading="Add a class of tokens",
    walk=walk,
    # Of another format.
    choices=("wire/chat_completions.py", "metering/chat_completions.py"),
    checks={"tests/dashboard/test_walked_tokens.py": CHECK},
    tests=(
        "tests/dashboard/tables/test_metadata.py",
        "tests/metering/test_token_counts.py",
        "tests/store/upgrades",
    ),
)
