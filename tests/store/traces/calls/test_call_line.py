import json
import time
from dataclasses import replace
from decimal import Decimal

import pytest

from metering.entry import UsageLogEntry
from metering.token_counts import TokenCounts
from store.traces.calls.call_line import LINE_FORMATS, format_entry
from tests import ROOT


@pytest.fixture(autouse=True)
def _far_from_utc(monkeypatch):
    monkeypatch.setenv("TZ", "XYZ-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def make_entry(**changes):
    entry = UsageLogEntry(
        entry_id="1",
        created_at="2026-01-02T14:03:27.000Z",
        proxy_endpoint_id="e",
        slug="default",
        outcome="complete",
        usage_source="final",
        streamed=True,
    )
    return replace(entry, **changes)


def test_a_call_is_one_readable_line_as_the_readme_has_it():
    entry = make_entry(
        model="claude-opus-5-5", cost_cents=Decimal("0.2876"),
        status_code=200, duration_ms=2310.4,
        tokens=TokenCounts(
            input_tokens=200, cache_read_input_tokens=980, cache_creation_input_tokens=24,
            output_tokens=88,
        ),
    )  # fmt: skip
    line = format_entry(entry)
    assert line == (
        "2026-01-02 14:03:27Z  default  claude-opus-5-5  1,204 in (980 cached)  88 out  $0.0029  200  2,310 ms"
    )
    assert f"\n{line}\n" in (ROOT / "README.md").read_text()


def test_an_estimated_output_is_called_so():
    tokens = TokenCounts(output_tokens=88)
    assert "  88 out (estimated)  " in format_entry(
        make_entry(tokens=tokens, usage_source="estimated")
    )


def test_what_is_not_known_is_a_dash_and_what_went_wrong_is_named():
    entry = make_entry(outcome="upstream_unreachable", error_type="upstream_unreachable")
    assert format_entry(entry) == (
        "2026-01-02 14:03:27Z  default  -  - in  - out  -  -  -  upstream_unreachable"
    )
    entry = make_entry(outcome="upstream_error", error_type="overloaded_error", status_code=529)
    assert format_entry(entry).endswith("529  -  upstream_error overloaded_error")


def test_a_refusal_is_named_with_its_category():
    entry = make_entry(status_code=200, stop_reason="refusal", cost_cents=Decimal(0))
    assert format_entry(entry).endswith("$0  200  -  refused")
    entry = replace(entry, refusal_category="cyber")
    assert format_entry(entry).endswith("200  -  refused cyber")


def test_a_hostile_model_name_cannot_steer_the_terminal():
    line = format_entry(make_entry(slug="\x1b[1m", model="\x1b[2Jclaude\r\n\u202e" + "x" * 500))
    assert line.isprintable()
    assert len(line) < 200


def test_in_json_a_call_is_an_object_with_the_figures_that_are_known():
    entry = make_entry(
        model="claude-opus-5-5", cost_cents=Decimal("1.234"), status_code=200, duration_ms=2310.4,
        tokens=TokenCounts(input_tokens=200, output_tokens=88), request_body=b"the body",
    )  # fmt: skip
    text = LINE_FORMATS["json"](entry)
    line = json.loads(text)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "process": "recorder", "message": format_entry(entry), "entry_id": "1",
        "created_at": "2026-01-02T14:03:27.000Z", "slug": "default", "model": "claude-opus-5-5",
        "outcome": "complete", "status_code": 200, "duration_ms": 2310.4, "input_tokens": 200,
        "output_tokens": 88, "cost_cents": 1.234,
    }  # fmt: skip
