import json

import pytest

from metering.chat_completions import read_chat_usage
from metering.token_counts import UNKNOWN, TokenCounts

COUNTS = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
TOKENS = TokenCounts(input_tokens=12, output_tokens=3)
DOCUMENT = {
    "id": "msg_1",
    "object": "chat.completion",
    "model": "claude-opus-5",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}
    ],
    "usage": COUNTS,
}


def write_part(delta, finish_reason=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    part = {"id": "msg_1", "object": "chat.completion.chunk", "model": "claude-opus-5"}
    return b"data: %s\n\n" % json.dumps(part | {"choices": [choice]} | more).encode()


PARTS = (
    write_part({"role": "assistant", "content": ""}),
    *(write_part({"content": word}) for word in ("He", "y")),
    write_part({}, "stop"),
)
LAST = write_part({}, choices=[], usage=COUNTS)
END = b"data: [DONE]\n\n"
STREAM = "text/event-stream"


def read(body, status=200, content_type="application/json", is_complete=True):
    return read_chat_usage(status, content_type, body, is_complete=is_complete)


def test_the_counts_of_a_document_are_its_input_and_output():
    usage = read(json.dumps(DOCUMENT).encode())
    assert (usage.tokens, usage.source, usage.streamed) == (TOKENS, "final", False)
    assert (usage.model, usage.stop_reason) == ("claude-opus-5", "stop")
    assert usage.envelope.id == "msg_1"


def test_the_counts_of_a_stream_are_in_its_last_part():
    usage = read(b"".join((*PARTS, LAST, END)), content_type=STREAM)
    assert (usage.tokens, usage.source, usage.streamed) == (TOKENS, "final", True)
    assert (usage.model, usage.stop_reason, usage.has_message_stop) == (
        "claude-opus-5",
        "stop",
        True,
    )


def test_a_stream_that_was_not_told_to_count_has_no_usage():
    usage = read(b"".join((*PARTS, END)), content_type=STREAM)
    assert (usage.tokens, usage.source) == (UNKNOWN, "none")
    assert (usage.model, usage.has_message_stop) == ("claude-opus-5", True)


def test_cuts_at_every_byte_give_the_same_or_less():
    body = b"".join((*PARTS, LAST, END))
    for end in range(len(body)):
        usage = read(body[:end], content_type=STREAM, is_complete=False)
        assert usage.tokens in (UNKNOWN, TOKENS)
        assert usage.model in (None, "claude-opus-5")
    document = json.dumps(DOCUMENT).encode()
    assert all(read(document[:end]).source == "none" for end in range(len(document)))


@pytest.mark.parametrize(
    ("body", "status", "content_type"),
    [
        (b'{"error":{"type":"invalid_request_error","message":"no"}}', 400, "application/json"),
        (PARTS[0] + b'data: {"error":{"type":"invalid_request_error"}}\n\n', 200, STREAM),
    ],
)
def test_an_error_has_its_type(body, status, content_type):
    usage = read(body, status, content_type)
    assert (usage.has_error, usage.error_type) == (True, "invalid_request_error")
    assert usage.source == "none"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1]",
        b"{}",
        b"\xff",
        b"data: {}\n\n",
        b'{"usage":[],"choices":{},"model":7}',
        b'{"usage":{"prompt_tokens":"12","completion_tokens":-1},"choices":[1,{"finish_reason":2}]}',
        b'{"error":null}',
    ],
)
def test_nothing_is_read_in_what_is_none(body):
    usage = read(body)
    assert (usage.tokens, usage.model, usage.stop_reason) == (UNKNOWN, None, None)
