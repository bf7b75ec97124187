import pytest
from jinja2 import Environment

from dashboard import formats
from metering.token_counts import TokenCounts


@pytest.mark.parametrize(
    ("cents", "text"),
    [
        (None, "—"),
        (0, "$0"),
        (0.0, "$0"),
        (0.000001, "<$0.0001"),
        (0.01, "$0.0001"),
        (1.234, "$0.0123"),
        (99.99, "$0.9999"),
        (99.9999, "$1.00"),
        (100, "$1.00"),
        (123456.7, "$1,234.57"),
    ],
)
def test_cents_are_shown_as_dollars(cents, text):
    assert formats.format_cents(cents) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "—"),
        (0, "0 ms"),
        (480.2, "480 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (2310.5, "2.3 s"),
        (59_949, "59.9 s"),
        (59_999, "1 min 00 s"),
        (94_000, "1 min 34 s"),
        (3_599_999, "1 h 00 min"),
        (3_725_000, "1 h 02 min"),
    ],
)
def test_durations_have_the_unit_that_suits_them(milliseconds, text):
    assert formats.format_duration(milliseconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "—"),
        (0, "0"),
        (9_999, "9,999"),
        (12_345, "12.3k"),
        (99_960, "100k"),
        (152_430, "152k"),
        (999_999, "1.0M"),
        (1_250_000, "1.2M"),
        (3_000_000_000, "3.0G"),
    ],
)
def test_many_tokens_are_shortened(count, text):
    assert formats.format_tokens(count) == text


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((None, None), "—"),
        ((0, 0), "—"),
        ((40, 40), "50%"),
        ((10, None), "0%"),
        ((0, 7), "100%"),
        ((1, 100_000), ">99%"),
        ((100_000, 1), "<1%"),
    ],
)
def test_the_cache_share_says_all_or_nothing_only_when_it_is(counts, text):
    uncached, read = counts
    tokens = TokenCounts(input_tokens=uncached, cache_read_input_tokens=read)
    assert formats.cache_share(tokens) == text


def test_a_prompt_is_itemized_by_class():
    tokens = TokenCounts(input_tokens=1_234, cache_read_input_tokens=40, output_tokens=7)
    assert formats.format_prompt(tokens) == (
        "1,274 tokens: 1,234 uncached input, — cache writes, 40 cache reads"
    )


@pytest.mark.parametrize(
    ("outcome", "status", "kind", "label"),
    [
        ("complete", 200, "ok", "complete"),
        ("complete", None, "ok", "complete"),
        ("upstream_error", 429, "bad", "error 429"),
        ("upstream_error", 200, "bad", "error"),
        ("upstream_interrupted", 200, "bad", "interrupted"),
        ("client_disconnected", 200, "cut", "client disconnected"),
        ("upstream_timeout", None, "bad", "timed out"),
        ("something_new", 200, "cut", "something_new"),
        (None, None, "cut", "unknown"),
    ],
)
def test_marks_say_how_a_call_ended(outcome, status, kind, label):
    assert formats.outcome_mark(outcome, status) == formats.Mark(kind, label)


def test_templates_have_them():
    environment = Environment(autoescape=True)
    formats.add_filters(environment)
    template = environment.from_string(
        "{{ 1.5 | cents }} {{ 20 | duration }} {{ 3 | tokens }} {{ 4000 | count_of }}"
        " {{ outcome_mark('complete').label }} {{ token_counts(row) | cache_share }}"
        " {{ token_counts(row).prompt }}"
    )
    row = {"input_tokens": 3, "cache_read_input_tokens": 1}
    assert template.render(row=row) == "$0.0150 20 ms 3 4,000 complete 25% 4"
