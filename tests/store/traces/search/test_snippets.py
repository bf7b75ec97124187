"""Snippets of texts."""

import pytest

from store.traces.search.query import parse_query
from store.traces.search.snippets import BEFORE, LENGTH, make_snippet
from store.traces.search.walk import Texts


def snip(query, *texts, role=None):
    said: Texts = [("user", text) for text in texts]
    return make_snippet(said, parse_query(query), role)


def marked(query, *texts):
    snippet = snip(query, *texts)
    return [snippet.text[start:end] for start, end in snippet.marks]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("fox", "The FOX and the fox.", ["FOX", "fox"]),
        ('"red fox"', "fox red fox red", ["red fox"]),
        ("ete", "un été", ["été"]),
        ("conf*", "config and confess", ["config", "confess"]),
        ("user_name", "get_user_name()", ["user_name"]),
        ("测试", "中文测试", ["测试"]),
        ('"red fo*', "red fox", []),
        ("absent", "here", []),
    ],
)
def test_words_are_marked_as_the_index_finds_them(query, text, expected):
    assert marked(query, text) == expected


def test_a_snippet_is_the_part_around_the_words():
    snippet = snip("wombat", "start " + "word " * 500 + "a wombat here" + " word" * 500)
    assert snippet.text.startswith("… ")
    assert snippet.text.endswith(" …")
    assert "a wombat here" in snippet.text
    assert len(snippet.text) <= LENGTH + 4
    assert snippet.marks[0][0] <= BEFORE + 2


def test_the_text_with_most_of_the_words_is_shown():
    assert snip("red fox", "a red one", "a red fox", "a fox").text == "a red fox"


def test_the_part_with_most_of_the_words_is_shown():
    text = "red " + "word " * 200 + "red fox"
    assert len(marked("red fox", text)) == 2


def test_only_texts_of_the_role_are_shown():
    texts: Texts = [("user", "fox one"), ("assistant", "fox two")]
    found = make_snippet(texts, parse_query("fox"), "assistant")
    assert found is not None
    assert found.text == "fox two"
    assert make_snippet(texts, parse_query("fox"), "tool") is None
