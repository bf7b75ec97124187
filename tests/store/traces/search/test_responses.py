"""The texts of responses."""

from store.traces.search.responses import read_response
from tests.metering.test_chat_completions import END, PARTS
from tests.store.traces.search.conversation import response, stream, tool_call


def test_what_a_tool_is_called_with_is_read_as_json():
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    parts = ('{"comm', 'and": "ls wom', 'bats", "n": 1}')
    body = stream(*parts, kind="input_json_delta", name="partial_json", block=block)
    assert read_response(body) == [("assistant", "Bash"), ("assistant", "ls wombats")]


def test_a_chat_completion_is_read_as_a_message_is():
    assert read_response(b"".join((*PARTS, END))) == [("assistant", "Hey")]


def test_a_document_is_read_as_a_stream_is():
    found = {"type": "web_search_tool_result", "content": [{"type": "x", "title": "Ponds"}]}
    body = response("hello", tool_call(1, command="ls"), found)
    assert read_response(body) == [
        ("assistant", "hello"),
        ("assistant", "Bash"),
        ("assistant", "ls"),
        ("tool_result", "Ponds"),
    ]
