from decimal import Decimal

import pytest

from metering import formats
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
    ("cents", "text"),
    [
        ("0", "$0"),
        ("0.000001", "<$0.0001"),
        ("-0.000001", "<$0.0001"),
        ("1.234", "+$0.0123"),
        ("-123456.7", "\N{MINUS SIGN}$1,234.57"),
    ],
)
def test_a_difference_that_stands_alone_has_a_sign_and_few_digits(cents, text):
    assert formats.format_signed_cents(Decimal(cents)) == text


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
        ((40, 40), "50 %"),
        ((10, None), "0 %"),
        ((0, 7), "100 %"),
        ((1, 100_000), ">99 %"),
        ((100_000, 1), "<1 %"),
    ],
)
def test_the_cache_share_says_all_or_nothing_only_when_it_is(counts, text):
    uncached, read = counts
    tokens = TokenCounts(input_tokens=uncached, cache_read_input_tokens=read)
    assert formats.format_cache_share(tokens) == text


def test_a_prompt_is_itemized_by_class():
    tokens = TokenCounts(input_tokens=1_234, cache_read_input_tokens=40, output_tokens=7)
    assert formats.format_prompt(tokens) == ("1,274 tokens: 1,234 uncached input, 40 cache reads")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "—"),
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_500, "1.5 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (3_000_000_000, "3.0 GB"),
        (1_200_000_000_000, "1.2 TB"),
        (1_234_500_000_000_000, "1,234.5 TB"),
    ],
)
def test_sizes_have_the_unit_that_suits_them(count, text):
    assert formats.format_bytes(count) == text


def test_a_place_in_a_row_has_its_ending():
    places = (1, 2, 3, 4, 10, 11, 12, 13, 20, 21, 22, 23, 101, 111, 112, 1_023)
    assert " ".join(map(formats.format_ordinal, places)) == (
        "1st 2nd 3rd 4th 10th 11th 12th 13th 20th 21st 22nd 23rd 101st 111th 112th 1,023rd"
    )


def test_what_is_exact_has_all_digits():
    assert formats.format_cents_for_column(1234567.8) == "$12,345.6780"
    assert formats.format_count(1234567) == "1,234,567"
    assert formats.format_calls(1) == "1 call"
    assert formats.format_calls(1204) == "1,204 calls"
    assert formats.format_bytes_exactly(12_345) == "12,345 bytes"
    assert formats.format_milliseconds(12_345.6) == "12,346 ms"


def test_what_is_unknown_may_have_another_mark():
    for write in (
        formats.format_cents, formats.format_cents_for_column, formats.format_dollars,
        formats.format_count, formats.format_tokens, formats.format_bytes, formats.format_duration,
        formats.format_milliseconds,
    ):  # fmt: skip
        assert (write(None), write(None, "-")) == ("—", "-")


@pytest.mark.parametrize(
    ("cents", "text"),
    [
        ("0", "$0.0000"),
        ("0.004", "$0.0000"),
        ("-0.004", "$0.0000"),
        ("123.456", "+$1.2346"),
        ("-123456.7", "\N{MINUS SIGN}$1,234.5670"),
    ],
)
def test_a_difference_in_cents_has_a_sign(cents, text):
    assert formats.format_cents_change(Decimal(cents)) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (1_234, "+1,234"), (-5, "\N{MINUS SIGN}5")])
def test_a_difference_in_tokens_has_a_sign(count, text):
    assert formats.format_count_change(count) == text


@pytest.mark.parametrize(
    ("cents", "of_call", "of_sum"),
    [
        (None, "—", "—"),
        (0, "$0", "$0.00"),
        (12.8, "$0.128", "$0.13"),
        (0.01, "<$0.001", "<$0.01"),
        (3_658, "$36.580", "$36.58"),
        (Decimal("123456.7"), "$1,234.567", "$1,234.57"),
    ],
)
def test_a_column_of_costs_has_the_same_number_of_decimals(cents, of_call, of_sum):
    assert formats.format_call_cost(cents) == of_call
    assert formats.format_sum_cost(cents) == of_sum


@pytest.mark.parametrize(
    ("cents", "text"), [(729, "+$7.29"), (-21, "\N{MINUS SIGN}$0.21"), (0, "$0.00")]
)
def test_a_change_of_a_sum_has_a_sign(cents, text):
    assert formats.format_sum_change(cents) == text


@pytest.mark.parametrize(
    ("now", "before", "text"),
    [(131, 100, "+31 %"), (87, 100, "\N{MINUS SIGN}13 %"), (100, 100, "0 %"), (5, 0, "")],
)
def test_a_change_is_in_per_cent_of_what_was_before(now, before, text):
    assert formats.format_change(now, before) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(63, 100, "63 %"), (0, 5, "0 %"), (1, 1000, "<1 %"), (999, 1000, ">99 %"), (1, 0, "—")],
)
def test_a_share_is_all_only_when_it_is(part, whole, text):
    assert formats.format_per_cent(part, whole) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "—"), (380, "380"), (2_140, "2.1k"), (47_600, "47.6k"), (131_000, "131k")],
)
def test_tokens_are_short_where_they_are_many(count, text):
    assert formats.format_short_tokens(count) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "—"),
        (0, "0 s"),
        (160, "<1 s"),
        (500, "<1 s"),
        (501, "1 s"),
        (8_200, "8 s"),
        (41 * 60_000, "41 min"),
        (77 * 60_000, "1 h 17 min"),
        (2 * 3_600_000, "2 h"),
        (3 * 86_400_000, "3 days"),
    ],
)
def test_what_lasted_is_told_in_its_two_largest_units(milliseconds, text):
    assert formats.format_lasted(milliseconds) == text
