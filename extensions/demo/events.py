"""A scripted reply in the format of the Messages API: one JSON message, or the events of a stream."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from extensions.demo.calls import Block, Reply
from extensions.demo.prompt_cache import InputTokens, count_tokens

DELTA_CHARS = 24
_END = ("stop_reason", "stop_sequence", "stop_details")  # what a stream tells last
_DEFAULT_MODEL = "claude-haiku-4-5"


def make_message(
    request: Mapping[str, Any], chosen: Reply, tokens: InputTokens, message_id: str
) -> dict[str, Any]:
    """Return the message for a reply to a request."""
    usage: dict[str, Any] = {
        "input_tokens": tokens.uncached,
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 0,
            "ephemeral_1h_input_tokens": 0,
            f"ephemeral_{tokens.ttl}_input_tokens": tokens.written,
        },
        "output_tokens": count_output(chosen),
        "service_tier": "standard",
    }
    searches = sum(block["type"] == "server_tool_use" for block in chosen.content)
    if searches:
        usage["server_tool_use"] = {"web_search_requests": searches}
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": request.get("model", _DEFAULT_MODEL),
        "content": list(chosen.content),
        "stop_reason": chosen.stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }
    if chosen.refusal:
        message["stop_details"] = {
            "type": "refusal",
            "category": chosen.refusal,
            "explanation": "The model declined this request.",
        }
    return message


def count_output(chosen: Reply) -> int:
    """Return the number of output tokens of a reply, without results of server tools."""
    return sum(
        count_tokens(json.dumps(block, ensure_ascii=False).encode())
        for block in chosen.content
        if not block["type"].endswith("_tool_result")
    )


def stream_events(message: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events that stream a message."""
    usage = message["usage"]
    end = {name: message[name] for name in _END if name in message}
    start = {**message, **dict.fromkeys(end), "content": [], "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", message=start)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        empty, deltas = _split(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta=end, usage=usage)
    yield _event("message_stop")


def _split(block: Block) -> tuple[Block, list[Block]]:
    """Return a block as in its start event, and the deltas that complete it."""
    kind = block["type"]
    if kind in ("text", "thinking"):
        deltas = [{"type": f"{kind}_delta", kind: part} for part in _parts(block[kind])]
        if kind == "thinking":
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": kind, **dict.fromkeys(block.keys() - {"type"}, "")}, deltas
    if kind in ("tool_use", "server_tool_use"):
        arguments = json.dumps(block["input"], ensure_ascii=False)
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in _parts(arguments)]
        return {**block, "input": {}}, deltas
    return block, []  # a result of a server tool comes whole


def _parts(words: str) -> list[str]:
    return [words[at : at + DELTA_CHARS] for at in range(0, len(words), DELTA_CHARS)]


def _event(name: str, **fields: object) -> bytes:
    data = json.dumps({"type": name, **fields}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {data}\n\n".encode()
