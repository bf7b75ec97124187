"""The messages of the scripted upstream, read as those of the real one."""

import json

from extensions.demo.calls import Reply
from extensions.demo.events import count_output, make_message, stream_events
from extensions.demo.prompt_cache import InputTokens
from metering.usage import read_usage

TOKENS = InputTokens(uncached=3, written=20, read=100)
CONTENT = (
    {"type": "thinking", "thinking": "Let me think about that for a while.", "signature": "c2ln"},
    {"type": "text", "text": "The answer is longer than one delta of the stream."},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Read",
        "input": {"file_path": "/shelf/clock.py"},
    },
)


def test_the_usage_of_a_stream_is_that_of_its_message():
    message = make_message({"model": "m"}, Reply(content=CONTENT), TOKENS, "msg_1")
    usage = read_usage(200, "text/event-stream", b"".join(stream_events(message)), is_complete=True)
    assert (usage.model, usage.stop_reason, usage.has_message_stop) == ("m", "tool_use", True)
    assert usage.tokens.input_tokens == 3
    assert usage.tokens.cache_creation_input_tokens == 20
    assert usage.tokens.cache_read_input_tokens == 100
    assert usage.tokens.output_tokens == message["usage"]["output_tokens"] > 20


def test_results_of_server_tools_are_not_output_and_searches_are_counted():
    search = {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "x", "content": ["long" * 100]}
    plain = make_message({}, Reply(content=CONTENT[1:2]), TOKENS, "msg_1")
    searched = make_message(
        {}, Reply(content=(search, search, result, CONTENT[1])), TOKENS, "msg_1"
    )
    written = count_output(Reply(content=(search, search)))
    assert searched["usage"]["output_tokens"] == plain["usage"]["output_tokens"] + written
    assert searched["usage"]["server_tool_use"] == {"web_search_requests": 2}
    assert searched["stop_reason"] == "end_turn"


def test_a_refusal_is_read_with_its_category_from_a_stream_and_from_a_document():
    message = make_message({}, Reply(content=[], refusal="cyber"), TOKENS, "msg_1")
    streamed = read_usage(
        200, "text/event-stream", b"".join(stream_events(message)), is_complete=True
    )
    whole = read_usage(200, "application/json", json.dumps(message).encode(), is_complete=True)
    for usage in (streamed, whole):
        assert (usage.stop_reason, usage.refusal_category) == ("refusal", "cyber")
        assert usage.is_empty
