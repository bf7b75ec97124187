"""Whole requests of message threads."""

import json

from hypothesis import given, strategies as st

from wire.threads import Exchange, join_thread

MARKER = {"cache_control": {"type": "ephemeral"}}
FIRST = {
    "model": "a",
    "thread": {"type": "create"},
    "system": [{"type": "text", "text": "s"} | MARKER],
    "tools": [{"name": "t"} | MARKER],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "1"} | MARKER]}],
}


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


def answer(text: str) -> bytes:
    return encode({"type": "message", "content": [{"type": "text", "text": text}]})


def ask(*texts: str, **fields: object) -> dict[str, object]:
    step = {"type": "continue", "previous_message_id": "msg"}
    said = [{"role": "user", "content": text} for text in texts]
    return {"model": "b", "max_tokens": 9, "thread": step, "messages": said} | fields


def test_a_request_has_the_messages_of_its_thread_and_settings_of_its_own():
    before = [Exchange(encode(FIRST), answer("A")), Exchange(encode(ask("2")), answer("B"))]
    whole = join_thread(before, encode(ask("3", "4", system="repeated")))
    assert whole is not None
    assert whole.sent == 2
    assert whole.document == {
        "model": "b",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "s"}],
        "tools": [{"name": "t"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "1"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "A"}]},
            {"role": "user", "content": "2"},
            {"role": "assistant", "content": [{"type": "text", "text": "B"}]},
            {"role": "user", "content": "3"},
            {"role": "user", "content": "4"},
        ],
    }


def test_a_paused_turn_that_goes_on_sends_nothing():
    whole = join_thread([Exchange(encode(FIRST), answer("A"))], encode(ask()))
    assert whole is not None
    assert (whole.sent, len(whole.document["messages"])) == (0, 2)  # type: ignore[arg-type]


def test_a_request_that_cannot_be_read_leaves_no_whole():
    assert join_thread([Exchange(b"{", answer("A"))], encode(ask("2"))) is None
    assert join_thread([], b"[]") is None


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_joined(one, other):
    join_thread([Exchange(one, other), Exchange(encode(FIRST), other)], encode(ask("2")))
    join_thread([Exchange(b'{"messages": [' + one + b"]}", other)], b'{"messages": ' + other + b"}")
