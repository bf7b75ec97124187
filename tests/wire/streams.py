"""Streams as upstream writes them, for tests of how they are read."""

import json


def event(type: str, **fields: object) -> bytes:
    """Return one event of a stream."""
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode()


def start(block: object, index: int | None = 0) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(kind: str, index: int | None = 0, **fields: object) -> bytes:
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", **fields})


TEXT, THINKING = {"type": "text", "text": ""}, {"type": "thinking", "thinking": "", "signature": ""}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
FALLBACK = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
BEGUN = event(
    "message_start",
    message={"id": "msg_1", "model": "a", "content": [], "usage": {"input_tokens": 9}},
)
ENDED = event(
    "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7}
) + event("message_stop")
STREAMS = {
    "text": BEGUN
    + start(TEXT)
    + delta("text", text="The quo")
    + delta("text", text="kka \u65e5")
    + ENDED,
    "characters": BEGUN
    + start(TEXT)
    + delta("text", text="is \ud83d")
    + delta("text", text='\ude00 here \\ "q"\n\n')
    + ENDED,
    "thinking": BEGUN
    + start(THINKING)
    + delta("thinking", thinking="hm, ")
    + delta("thinking", thinking="yes")
    + delta("signature", signature="c2ln")
    + start(TEXT, 1)
    + delta("text", 1, text="Yes.")
    + ENDED,
    "tool": BEGUN
    + start(TOOL)
    + delta("input_json", partial_json='{"comm')
    + delta("input_json", partial_json='and": "ls wombats", "n": 1}')
    + ENDED,
    "citations": BEGUN
    + start(TEXT)
    + delta("citations", citation={"cited_text": "a"})
    + delta("text", text="as it says")
    + ENDED,
    "compaction": BEGUN
    + start({"type": "compaction", "content": None})
    + delta("compaction", content="Until now: ")
    + delta("compaction", content="much.")
    + ENDED,
    "fallback": BEGUN + start(FALLBACK) + start(TEXT, 1) + delta("text", 1, text="b says") + ENDED,
    "blocks of one index": BEGUN
    + start(TEXT)
    + delta("text", text="one")
    + start(TOOL)
    + delta("input_json", partial_json="{}")
    + ENDED,
    "lost starts": delta("text", 3, text="no start") + delta("thinking", 4, thinking="none"),
    "no indexes": BEGUN
    + start(TEXT, None)
    + delta("text", None, text="one")
    + start(TOOL, None)
    + delta("input_json", None, partial_json="{}")
    + ENDED,
    "error": BEGUN
    + start(TEXT)
    + delta("text", text="so")
    + event("error", error={"type": "overloaded_error", "message": "busy"}),
    "other order": b'data: {"index": 0, "content_block": {"type": "text"}, "type": "content_block_start"}\n\n'
    b'data: {"delta": {"text": "odd", "type": "text_delta"}, "type": "content_block_delta", "index": 0}\n\n',
}
