"""Reading queries: any text is one."""

import pytest
from hypothesis import given, strategies as st

from runtime.errors import InvalidInputError
from store.traces.database import TraceDatabase
from store.traces.search.query import parse_query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red fox", '"red" AND "fox"'),
        ('"red fox" x', '"red fox" AND "x"'),
        ("conf*", '"conf" *'),
        ('"conf*"', '"conf"'),
        ("conf* x", '"conf" AND "x"'),
        ("c*", '"c"'),
        ("AND OR NOT x NEAR(y)", '"AND" AND "OR" AND "NOT" AND "x" AND "NEAR(y)"'),
        ("get_user_name", '"get_user_name"'),
        ('say "unclosed thing', '"say" AND "unclosed thing"'),
        ("\U0001f600 x", '"x"'),
        ("中文", '" 中  文 "'),
        ("user:x", '"user:x"'),
        ("fox Fox fóx", '"fox"'),
        ('"red fox" red "RED  FOX" fox', '"red fox" AND "red" AND "fox"'),
        ("fox fox*", '"fox" AND "fox" *'),
    ],
)
def test_terms_become_strings_and_the_last_may_be_a_beginning(text, expected):
    assert parse_query(text).match() == expected


def test_a_role_is_a_column():
    assert parse_query("red fox").match("user") == '{user} : ("red" AND "fox")'


@pytest.mark.parametrize("text", ["", " ", "*", '"', "\U0001f600", "- + ()", "\0"])
def test_text_without_letters_and_digits_has_no_terms(text):
    assert parse_query(text).phrases == ()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1001,
        " ".join(f"x{number}" for number in range(65)),
        '"' + "x " * 65 + '"',
        " ".join('"' + "x " * length + '"' for length in range(2, 12)),
        "語" * 65,
    ],
)
def test_what_is_too_long_is_refused(text):
    with pytest.raises(InvalidInputError):
        parse_query(text)


@pytest.mark.parametrize("text", ["x " * 400, '"' + "x " * 64 + '"', "語" * 64])
def test_words_are_counted_over_all_phrases_and_repeated_ones_once(text):
    assert parse_query(text).phrases


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    with TraceDatabase(tmp_path_factory.mktemp("any") / "traces.db") as traces:
        yield traces.connection


@given(text=st.text(max_size=60) | st.text(alphabet='"*()^:-+{}ab \0ANDORT', max_size=60))
def test_sqlite_takes_any_query(db, text):
    query = parse_query(text)
    for role in (None, "user"):
        if query.phrases:
            sql = "select rowid from search_text(?)"
            assert db.execute(sql, (query.match(role),)).fetchall() == []
