"""The sentence about a request that upstream has changed."""

import json

import pytest

from metering.upstream_changes import describe_changes, list_changes
from wire.envelope import read_envelope

RESULTS = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": 9000}
THINKING = {"type": "clear_thinking_20251015", "cleared_thinking_turns": 1}
DROPPED = {"type": "thinking_dropped", "path": "messages.1.content.0"}


@pytest.mark.parametrize(
    ("fields", "changes", "words"),
    [
        (
            {"context_management": {"applied_edits": [RESULTS]}},
            ["cleared"],
            "cleared 3 tool calls (9,000 tokens)",
        ),
        (
            {"context_management": {"applied_edits": [RESULTS, THINKING]}},
            ["cleared"],
            "cleared 3 tool calls and 1 turn of thinking (9,000 tokens)",
        ),
        (
            {"context_management": {"applied_edits": [{}]}},
            ["cleared"],
            "cleared parts of the history",
        ),
        (
            {"usage": {"iterations": [{"type": "compaction"}, {"type": "message"}]}},
            ["summed_up"],
            "summed up the history",
        ),
        (
            {"input_transformations": [DROPPED]},
            ["dropped_thinking"],
            "dropped 1 block of thinking",
        ),
        (
            {
                "context_management": {"applied_edits": [THINKING]},
                "input_transformations": [
                    DROPPED,
                    DROPPED | {"type": "thinking_mismatch_allowed"},
                ],
            },
            ["cleared", "dropped_thinking"],
            "cleared 1 turn of thinking and dropped 1 block of thinking",
        ),
    ],
)
def test_what_a_response_says_of_the_request_is_one_sentence(fields, changes, words):
    message = {"type": "message", "content": []} | fields
    said = read_envelope(json.dumps(message).encode())
    assert list_changes(said) == changes
    assert describe_changes(said) == f"Changed by upstream: it {words}."


@pytest.mark.parametrize("edits", [None, [], "x", {}])
def test_nothing_is_said_where_nothing_was_changed(edits):
    message = {"content": [], "context_management": {"applied_edits": edits}}
    said = read_envelope(json.dumps(message).encode())
    assert (describe_changes(said), list_changes(said)) == ("", [])


def test_a_stream_says_it_at_its_end():
    ending = {
        "type": "message_delta",
        "delta": {},
        "context_management": {"applied_edits": [THINKING]},
    }
    stream = b"event: message_delta\ndata: " + json.dumps(ending).encode() + b"\n\n"
    assert describe_changes(read_envelope(stream)) == (
        "Changed by upstream: it cleared 1 turn of thinking."
    )
