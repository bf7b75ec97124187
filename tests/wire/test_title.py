"""The title of a call: the first words of what a person said last."""

import pytest

from wire.title import MAX_CHARS, find_title

REMINDER = "<system-reminder>\nDo not mention this.\n</system-reminder>"


def title_of(*messages):
    return find_title(messages)


def said(content, role="user"):
    return {"role": role, "content": content}


def text(words):
    return {"type": "text", "text": words}


SUMMARY = "This session is being continued from a previous conversation. It was"
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "forty-two"}


@pytest.mark.parametrize(
    ("messages", "title"),
    [
        ([said("Mend the\n  test, please")], "Mend the test, please"),
        ([said("first"), said("an answer", "assistant"), said("second")], "second"),
        ([said("ask"), said([RESULT])], "ask"),
        ([said([RESULT, text("and now this")])], "and now this"),
        ([said([text(REMINDER), text("the question")])], "the question"),
        ([said(f"{REMINDER}\n{REMINDER} the question {REMINDER} more")], "the question"),
        ([said("earlier"), said([text(REMINDER), RESULT])], "earlier"),
        ([said("<system-reminder> without an end")], None),
        ([said("hello", "assistant")], None),
        ([said("a\u202eb\x1b[31m")], "a\u202eb\x1b[31m"),
        ([said(" \n\t ")], None),
        ([said([text(SUMMARY), text("go on")])], "go on"),
        ([said([text(SUMMARY), text(REMINDER)]), said([RESULT])], SUMMARY),
        ([], None),
        (["no message", said({"a": 1}), said([1, {"type": "text", "text": 2}])], None),
    ],
)
def test_it_is_what_was_said_last(messages, title):
    assert title_of(*messages) == title


def test_a_long_text_is_cut_between_words():
    title = title_of(said("word " * 1000))
    assert title.endswith("word…")
    assert len(title) <= MAX_CHARS + 1
    assert title_of(said("not. " * 100)).endswith(" not. not…")
    assert title_of(said("." * 1000)) == "." * MAX_CHARS + "…"
    assert title_of(said("x" * 1000)) == "x" * MAX_CHARS + "…"
    assert title_of(said("few" + " " * 200 + "words")) == "few words"
    assert title_of(said("<system-reminder>" + "y" * 2_000_000 + "</system-reminder>z")) == "z"
