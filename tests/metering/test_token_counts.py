from dataclasses import fields

import pytest
from hypothesis import given, strategies as st

from metering import token_counts
from metering.token_counts import UNKNOWN, ZERO, TokenCounts
from metering.usage import read_usage
from store.traces.sums.usage_report import Totals

COUNTS = st.builds(
    TokenCounts,
    **{name: st.none() | st.integers(0, 10**12) for name in token_counts.NAMES},
)


def test_the_prompt_is_what_the_model_read_and_not_what_it_wrote():
    tokens = TokenCounts(
        input_tokens=1,
        output_tokens=1_000,
        cache_creation_input_tokens=10,
        cache_read_input_tokens=100,
    )
    assert tokens.prompt == 111


def test_a_prompt_of_which_nothing_is_known_is_unknown_and_not_zero():
    assert TokenCounts(output_tokens=5).prompt is None
    assert TokenCounts(cache_read_input_tokens=0).prompt == 0


@given(one=COUNTS, other=COUNTS)
def test_an_unknown_count_adds_nothing_to_a_known_one(one, other):
    for name in token_counts.NAMES:
        counts = [getattr(each, name) for each in (one, other)]
        known = [count for count in counts if count is not None]
        assert getattr(one + other, name) == (sum(known) if known else None)


@given(tokens=COUNTS)
def test_a_sum_that_begins_with_zero_has_no_unknown_count(tokens):
    assert None not in token_counts.flatten(Totals(tokens=ZERO + tokens)).values()
    assert UNKNOWN + tokens == tokens


@given(tokens=COUNTS)
def test_counts_are_known_as_soon_as_one_of_them_is(tokens):
    assert tokens.are_known == any(getattr(tokens, name) is not None for name in token_counts.NAMES)


@given(tokens=COUNTS)
def test_counts_are_read_back_from_the_columns_they_are_flattened_to(tokens):
    assert TokenCounts.from_row(token_counts.flatten(Totals(tokens=tokens))) == tokens


def test_a_row_without_a_class_has_an_unknown_count_of_it():
    assert TokenCounts.from_row({"output_tokens": 3, "slug": "one"}) == TokenCounts(output_tokens=3)


def test_every_class_is_either_part_of_the_prompt_or_not():
    shown = (*token_counts.PROMPT_CLASSES, *token_counts.OTHER_CLASSES)
    assert sorted(each.name for each in shown) == sorted(each.name for each in fields(TokenCounts))


@pytest.mark.parametrize("name", token_counts.NAMES)
def test_every_class_is_read_from_the_usage_of_a_response(name):
    body = b'{"type":"message","usage":{"%b":7}}' % name.encode()
    usage = read_usage(200, "application/json", body, is_complete=True)
    assert usage.tokens == TokenCounts(**{name: 7})
