"""Snippets of texts."""

import pytest

from store.traces.search import snippets, text
from store.traces.search.query import parse_query
from store.traces.search.snippets import BEFORE, LENGTH, make_snippet
from store.traces.search.text import Word
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


def count_words_read(monkeypatch, query, said, is_over=lambda: False):
    """Return how many words of a text are looked at for a snippet, and the snippet."""
    read: list[Word] = []

    def find_words(said):
        for word in all_words(said):
            read.append(word)
            yield word

    all_words = text.find_words
    monkeypatch.setattr(snippets, "find_words", find_words)
    found = make_snippet([("user", said)], parse_query(query), None, is_over)
    return len(read), found


def test_no_more_of_a_text_is_looked_at_than_its_first_matches_take(monkeypatch):
    """Else a text of one word would take a list entry for each of its words and of those of the query."""
    count, found = count_words_read(monkeypatch, "word", "word " * 10_000)
    assert count == snippets.MAX_MATCHES
    assert len(found.marks) > 10


def test_a_word_that_is_everywhere_leaves_room_for_one_that_is_rare():
    found = snip("word wombat", "word one " * 2_000, "word two " * 2_000 + "wombat")
    assert "word two" in found.text


@pytest.mark.parametrize("query", ["absent", '"absent word word word word"', "absent*"])
def test_a_long_text_is_left_when_the_time_is_over(monkeypatch, query):
    count, found = count_words_read(monkeypatch, query, "word " * 10_000, lambda: True)
    assert count == snippets.WORDS_BETWEEN_LOOKS
    assert found.text.startswith("word word")
