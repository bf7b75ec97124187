import re

import pytest
from jinja2 import Environment

from dashboard import formats
from tests import ROOT


@pytest.mark.parametrize(
    ("outcome", "status", "kind", "label"),
    [
        ("complete", 200, "ok", "complete"),
        ("complete", None, "ok", "complete"),
        ("upstream_error", 429, "bad", "error 429"),
        ("upstream_error", 200, "bad", "error"),
        ("upstream_interrupted", 200, "bad", "interrupted"),
        ("client_disconnected", 200, "cut", "cut by the client"),
        ("upstream_timeout", None, "bad", "timed out"),
        ("something_new", 200, "cut", "something_new"),
        (None, None, "cut", "unknown"),
    ],
)
def test_marks_say_how_a_call_ended(outcome, status, kind, label):
    assert formats.outcome_mark(outcome, status) == formats.Mark(kind, label)


def test_a_refusal_is_no_tick_and_an_error_stays_one():
    assert formats.outcome_mark("complete", 200, "refusal") == formats.Mark("refused", "refused")
    assert formats.outcome_mark("complete", 200, "end_turn").kind == "ok"
    assert formats.outcome_mark("client_disconnected", 200, "refusal").kind == "cut"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("claude-opus-4-5-20251101", "opus-4-5"),
        ("claude-haiku-4-5", "haiku-4-5"),
        ("gpt-x", "gpt-x"),
        ("—", "—"),
    ],
)
def test_model_is_named_without_what_all_share(name, short):
    assert formats.shorten_model(name) == short


def test_templates_have_them():
    environment = Environment(autoescape=True)
    formats.add_filters(environment)
    template = environment.from_string(
        "{{ 1.5 | cents }} {{ 20 | duration }} {{ 3 | tokens }} {{ 4000 | count_of }}"
        " {{ outcome_mark('complete').label }} {{ token_counts(row) | cache_share }}"
        " {{ token_counts(row).prompt }}"
    )
    row = {"input_tokens": 3, "cache_read_input_tokens": 1}
    assert template.render(row=row) == "$0.0150 20 ms 3 4,000 complete 25 % 4"


def test_counts_are_written_by_one_function():
    rooms = [ROOT / name for name in ("addon", "dashboard", "manage", "runtime", "store/control")]
    files = [file for room in rooms for file in room.rglob("*") if file.suffix in (".py", ".html")]
    assert len(files) > 200
    assert [str(file) for file in files if re.search(r":,\}", file.read_text())] == []
