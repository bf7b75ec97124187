"""Texts as the index and the marking of words see them."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, strategies as st

from store.traces.search import text
from store.traces.search.text import clean, find_words, separate_ideographs


def words(said):
    return [word.folded for word in find_words(said)]


def index_words(said):
    """The words that SQLite has of a text, in order."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(
            "create virtual table t using fts5(said, content='',"
            " tokenize='unicode61 remove_diacritics 2')"
        )
        db.execute("create virtual table words using fts5vocab(t, 'instance')")
        db.execute("insert into t values (?)", (separate_ideographs(clean(said)),))
        return [row[0] for row in db.execute("select term from words order by offset")]


@pytest.mark.parametrize(
    "said",
    [
        "get_user_name(x.y)",
        "Été à Zürich",
        "中文 und 日本語のテスト",
        "한국어",
        "naïve Straße",
        "a1b2 c3",
    ],
)
def test_words_are_cut_as_sqlite_cuts_them(said):
    assert words(said) == index_words(said)


@given(st.text(st.characters(max_codepoint=0x17E, exclude_categories=["Cs"]), max_size=40))
def test_words_of_latin_text_are_those_of_the_index(said):
    assert words(clean(said)) == index_words(said)


def test_a_word_says_where_it_stands():
    said = "Où est-elle?"
    assert [said[word.start : word.end] for word in find_words(said)] == ["Où", "est", "elle"]


@pytest.mark.parametrize(
    "said",
    [
        "toolu_01ABCdef",
        "msg_0123",
        "12.5",
        "",
        "0e0e7b8a-1c3d-4f5a-9b7c-0123456789ab",
        "2026-01-02",
    ],
)
def test_ids_and_numbers_are_left_out(said):
    assert clean(said) == ""


def test_what_is_encoded_is_left_out_and_the_text_around_it_stays():
    image = "iVBORw0KGgo" * 100
    assert clean(f"see data:image/png;base64,{image} there").split() == [
        "see",
        "data:image/png;base64,",
        "there",
    ]
    assert clean(image) == ""


def test_of_a_long_text_the_beginning_is_kept(monkeypatch):
    monkeypatch.setattr(text, "MAX_CHARS", 10)
    assert clean("a b c d e f g") == "a b c d e "


def test_nul_and_half_characters_become_something_that_sqlite_stores():
    assert clean("a\0b") == "a b"
    assert clean("a\ud83db") == "a?b"


@given(
    st.lists(st.sampled_from(["x" * 99, "y" * 100, "z" * 250, " ", "\n", "\t", "é"]), max_size=12)
)
def test_no_long_word_is_missed_by_the_look_at_halves(parts):
    said = "".join(parts)
    if text._has_long_word(said):
        assert text._has_long_run(said)
