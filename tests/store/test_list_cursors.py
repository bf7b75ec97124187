"""Cursors of lists of traces: any text is one that was made here, or refused."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from runtime.errors import InvalidCursorError
from store.list_cursors import format_cursor, parse_cursor
from store.pagination import encode_cursor

MOST = 2**63 - 1  # of an integer in SQLite
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(
    st.one_of(
        st.tuples(st.integers(-MOST - 1, MOST), st.integers(-MOST - 1, MOST)),
        st.tuples(TEXTS, TEXTS),
    )
)
def test_a_place_comes_back_from_its_cursor(place):
    assert parse_cursor(format_cursor(place), type(place[0])) == place


@given(st.one_of(st.text(max_size=60), st.text(max_size=40).map(encode_cursor)))
def test_any_other_text_is_refused(text):
    with suppress(InvalidCursorError):
        assert all(type(part) is int for part in parse_cursor(text, int))
    with suppress(InvalidCursorError):
        assert all(type(part) is str for part in parse_cursor(text, str))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[1]",
        "[1,2,3]",
        "{}",
        "[" * 5000,
        "[true,1]",
        "[null,1]",
        "[1.5,1]",
        f"[{10**30},1]",
        '["a",1]',
        '["\\ud800","a"]',
    ],
)
def test_what_is_no_pair_is_refused(text):
    with pytest.raises(InvalidCursorError):
        parse_cursor(encode_cursor(text), int)
    with pytest.raises(InvalidCursorError):
        parse_cursor(encode_cursor(text), str)
