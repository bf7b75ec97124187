"""The calls in each stored database: what was sent and what came back, in this order."""

import json
from dataclasses import dataclass
from typing import Any

MODEL = "claude-sonnet-4-5"
SESSION = "5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42"
_CACHED = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call through the proxy. ``is_cut``: upstream ended the connection in the middle of its response."""

    request: bytes
    response: bytes
    status: int = 200
    content_type: str = "application/json"
    session: str | None = None
    is_cut: bool = False


def _request(system: str, *messages: tuple[str, Any], **more: Any) -> bytes:
    body = {
        "model": MODEL,
        "max_tokens": 1024,
        "system": [{"type": "text", "text": system, "cache_control": _CACHED}],
        "messages": [{"role": role, "content": content} for role, content in messages],
    }
    return json.dumps(body | more, ensure_ascii=False, separators=(",", ":")).encode()


def _usage(read: int, written: int, output: int) -> dict[str, Any]:
    return {
        "input_tokens": 12,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    }


def _message(text: str, usage: dict[str, Any], model: str = MODEL) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_01",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": usage,
    }


def _events(words: list[str], usage: dict[str, Any]) -> list[bytes]:
    start = _message("", usage | {"output_tokens": 1}) | {"content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": word},
            }
            for word in words
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": usage["output_tokens"]},
        },
        {"type": "message_stop"},
    ]
    return [
        f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n".encode()
        for each in events
    ]


_STREAM = "text/event-stream"
_SYSTEM = "You mend clocks. Answer in few words."
_FIRST = ("user", "Why does the tower clock stop at “noon”?")
_SECOND = (
    _FIRST,
    ("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "tick"}}]),
    (
        "user",
        [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "tock\n\ttöck"}],
    ),
)
_THIRD = (*_SECOND, ("assistant", "The pendulum."), ("user", "And at midnight?"))

CALLS = (
    Call(
        request=_request(_SYSTEM, _FIRST, stream=True),
        response=b"".join(_events(["The pen", "dulum ", "rests."], _usage(0, 9_000, 31))),
        content_type=_STREAM,
        session=SESSION,
    ),
    Call(
        request=_request(_SYSTEM, *_SECOND, stream=True),
        response=b"".join(_events(["The ", "pendulum."], _usage(9_000, 1_200, 17))),
        content_type=_STREAM,
        session=SESSION,
    ),
    Call(
        request=_request(_SYSTEM + " Be kind.", *_THIRD, stream=True),  # the cache breaks here
        response=b"".join(_events(["At midnight ", "it rests too."], _usage(0, 11_000, 23))),
        content_type=_STREAM,
        session=SESSION,
    ),
    Call(
        request=_request(_SYSTEM, ("user", "Which oil?")),
        response=json.dumps(_message("Whale oil, once.", _usage(0, 0, 8)), indent=1).encode(),
    ),
    Call(
        request=_request(_SYSTEM, ("user", "Which spring?"), model="clock-model-0"),
        response=json.dumps(
            _message("A mainspring.", _usage(0, 0, 5), model="clock-model-0")
        ).encode(),
    ),
    Call(
        request=_request(_SYSTEM, ("user", "Which bell?")),
        response=b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
        status=529,
    ),
    Call(
        request=b'{"model": "\xff\x00 no text"',
        response=b"\x00\xff no text either",
        status=400,
        content_type="application/octet-stream",
    ),
    Call(
        request=_request(_SYSTEM, ("user", "Count the strokes."), stream=True),
        response=b"".join(_events(["One, two, three, ", "four, five"], _usage(0, 0, 40))[:4]),
        content_type=_STREAM,
        is_cut=True,
    ),
)
