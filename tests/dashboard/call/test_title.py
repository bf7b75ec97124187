"""What a call is called: the first words that a person said last."""

import json

import pytest

from dashboard.call.title import MAX_CHARS, make_title
from tests import ROOT

REMINDER = "<system-reminder>\nDo not mention this.\n</system-reminder>"


def title_of(*messages):
    return make_title(json.dumps({"messages": list(messages)}).encode())


def said(content, role="user"):
    return {"role": role, "content": content}


def text(words):
    return {"type": "text", "text": words}


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
        ([said("<system-reminder> without an end")], ""),
        ([said("hello", "assistant")], ""),
        ([said("a\u202eb\x1b[31m\u200b")], "a⟨U+202E⟩b⟨U+001B⟩[31m⟨U+200B⟩"),
        ([said(" \n\t ")], ""),
        ([], ""),
        (["no message", said({"a": 1}), said([1, {"type": "text", "text": 2}])], ""),
    ],
)
def test_it_is_what_was_said_last(messages, title):
    assert title_of(*messages) == title


def test_a_long_text_is_cut_between_words():
    title = title_of(said("word " * 1000))
    assert title.endswith("word…")
    assert len(title) <= MAX_CHARS + 1
    assert title_of(said("x" * 1000)) == "x" * MAX_CHARS + "…"
    assert title_of(said("<system-reminder>" + "y" * 2_000_000 + "</system-reminder>z")) == "z"


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff\x00", b'{"messages": 1}'])
def test_what_is_no_conversation_has_no_title(body):
    assert make_title(body) == ""


def test_times_are_shown_as_they_are_stored():
    """The script changes titles only: what is read on a page is UTC for everybody."""
    script = (ROOT / "dashboard" / "static" / "time.js").read_text()
    assert "textContent" not in script
    assert "innerText" not in script
    assert "element.title = " in script
