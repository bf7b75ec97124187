import json
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from conversations.xray import list_spans
from tests.conversations.sessions import MARKER, assistant, conversation, text, tool, user
from tests.processor_time import takes_less_than
from tests.recorded import CASES, RECORDED, needs_recorded
from wire.request_places import MAX_VALUES


def show(body: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    """Return the spans that are not envelope: category, name, and the bytes themselves."""
    raw = orjson.dumps(body)
    spans = list_spans(raw)
    return [
        (span.category, span.name, raw[span.start : span.end].decode())
        for span in spans
        if span.category != "envelope"
    ]


def check_whole(body: bytes) -> None:
    spans = list_spans(body)
    assert sum(span.size for span in spans) == len(body)
    assert all(span.size > 0 for span in spans)
    ends = [0, *(span.end for span in spans)]
    assert [span.start for span in spans] == ends[:-1]


def test_each_part_of_a_request_has_its_category():
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    body = {
        "model": "m",
        "tools": [tool("Read"), tool("mcp__tracker__list"), tool("Late") | {"defer_loading": True}],
        "system": [text("x-anthropic-billing-header: a"), text("Be brief.", MARKER)],
        "messages": [
            {"role": "user", "content": "Hello"},
            assistant(
                {"type": "thinking", "thinking": "hm", "signature": "long"},
                text("I look."),
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}},
            ),
            user(
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [text("found"), {"type": "image", "source": source}],
                },
                {"type": "document", "source": {"type": "text", "data": "d"}},
            ),
        ],
    }
    found = show(body)
    assert [(category, name) for category, name, _ in found] == [
        ("tool", "Read"),
        ("tool", "mcp__tracker__list"),
        ("deferred_tool", "Late"),
        ("attribution", None),
        ("system", None),
        ("user_text", None),
        ("thinking", None),
        ("assistant_text", None),
        ("tool_call", "Read"),
        ("tool_result", "Read"),
        ("image", "Read"),
        ("document", None),
    ]
    assert [words for _, _, words in found[4:10]] == [
        "Be brief.",
        "Hello",
        "hm",
        "I look.",
        '{"path":"a"}',
        "found",
    ]
    assert json.loads(found[0][2]) == tool("Read")
    spans = list_spans(orjson.dumps(body))
    assert [span.server for span in spans if span.category == "tool"] == [None, "tracker"]
    places = [(s.message, s.block) for s in spans if s.category in ("user_text", "tool_result")]
    assert places == [(0, None), (2, 0)]
    check_whole(orjson.dumps(body))


@pytest.mark.parametrize(
    "words",
    [
        "Contents of a ",
        "Contents of ",
        "<system-reminder>",
        "<system-reminder>Contents of a ",
        '\\"',
    ],
)
def test_the_time_is_in_proportion_to_the_text(words):
    body = orjson.dumps({"messages": [user(text("<system-reminder>" + words * 30_000))]})
    with takes_less_than(10):  # by the square of it, it would be minutes
        assert list_spans(body)


def test_reminders_and_memory_files_are_told_apart_from_what_the_user_said():
    reminder = (
        "<system-reminder>\nAs you answer:\nContents of /a/CLAUDE.md (project instructions):\n\n"
        'Use "tabs".\n\nContents of /home/u/CLAUDE.md (private):\n\nBe nice.\n</system-reminder>'
    )
    found = show({"messages": [user(text(f"Before. {reminder}After. <system-reminder>Open"))]})
    assert [(category, name) for category, name, _ in found] == [
        ("user_text", None),
        ("reminder", None),
        ("memory", "/a/CLAUDE.md"),
        ("memory", "/home/u/CLAUDE.md"),
        ("reminder", None),
        ("user_text", None),
        ("reminder", None),
    ]
    assert "".join(words for *_, words in found) == json.dumps(
        f"Before. {reminder}After. <system-reminder>Open"
    ).strip('"')
    assert [words for category, _, words in found if category == "user_text"] == [
        "Before. ",
        "After. ",
    ]


def test_the_attribution_block_is_the_first_one_only():
    block = text("x-anthropic-billing-header: a")
    found = show({"system": [text("Be brief."), block]})
    assert [category for category, *_ in found] == ["system", "system"]


def test_an_assistant_that_quotes_a_reminder_says_a_text():
    found = show({"messages": [assistant(text("<system-reminder>x</system-reminder>"))]})
    assert [category for category, *_ in found] == ["assistant_text"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"a":NaN}',
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        b"[" + b"[]," * MAX_VALUES + b"[]]",
        b"[" * 5_000 + b"]" * 5_000,
    ],
)
def test_what_cannot_be_read_is_one_span(body):
    assert [(span.size, span.category) for span in list_spans(body)] == [(len(body), "unread")]


def test_an_empty_body_has_no_spans():
    assert list_spans(b"") == []


ODD: Any = st.recursive(
    st.none()
    | st.integers(-9, 9)
    | st.sampled_from(
        ["text", "tool_use", "tool_result", "image", "thinking", "document", "user", "assistant"]
    )
    | st.text(max_size=8)
    | st.just("a <system-reminder>b Contents of /x: é\n</system-reminder> c"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "content",
                    "role",
                    "source",
                    "input",
                    "id",
                    "tool_use_id",
                    "name",
                    "x",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(["messages", "system", "tools", "model"]), ODD), st.booleans()
)
def test_spans_of_any_request_add_up_to_its_length(body, is_spaced):
    written = json.dumps(body, indent=2).encode() if is_spaced else orjson.dumps(body)
    check_whole(written)


@given(st.lists(ODD, max_size=4), st.lists(ODD, max_size=3))
def test_spans_of_odd_messages_add_up_to_their_length(blocks, tools):
    messages = [*conversation(1), {"role": "user", "content": blocks}, *blocks]
    check_whole(orjson.dumps({"tools": tools, "messages": messages, "system": blocks}))


@given(st.binary(max_size=100))
def test_spans_of_any_bytes_add_up_to_their_length(body):
    check_whole(body)


@needs_recorded
def test_spans_of_recorded_requests_add_up_and_leave_little_to_the_envelope():
    seen = 0
    for name in CASES:
        path = RECORDED / f"{name}.request.json"
        if path.exists():
            body = path.read_bytes()
            check_whole(body)
            assert "unread" not in {span.category for span in list_spans(body)}, name
            sizes = Counter[str]()
            for span in list_spans(body):
                sizes[span.category] += span.size
            assert len(body) < 5_000 or sizes["envelope"] < max(sizes.values()), name
            seen += 1
    assert seen > 30
