"""Chat completions: the responses of upstream's interface for programs that are written for OpenAI's.

They are read as the message that upstream has made them of, so whoever shows or searches responses needs to
know nothing of them. Only the first choice is read: upstream makes no other. A stream has its words in parts:

    data: {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "He"}}]}
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from wire.json_reading import as_object, as_objects, as_text, parse_json, parse_object
from wire.sse import parse_events

MAX_EVENTS = 150_000
MAX_TOOL_CALLS = 1_000
DECIDING_BYTES = 4096
_OBJECT = b'"chat.completion'

type Fields = Mapping[str, object]


def read_chat(body: bytes, max_events: int = MAX_EVENTS) -> dict[str, object] | None:
    """Return the message of a chat completion, whole or cut; None for any other body. Never raises."""
    found = _list_parts(body, max_events) if _OBJECT in body[:DECIDING_BYTES] else iter(())
    first = next(found, {})
    if not as_text(first.get("object")).startswith("chat.completion"):
        return None
    parts = [first, *found]
    texts: list[str] = []
    calls: dict[object, dict[str, str]] = {}
    stop_reason: object = None
    for choice in (choice for part in parts for choice in as_objects(part.get("choices"))[:1]):
        stop_reason = choice.get("finish_reason") or stop_reason
        said = as_object(choice.get("message")) or as_object(choice.get("delta"))
        texts.append(as_text(said.get("content")))
        for place, call in enumerate(as_objects(said.get("tool_calls"))):
            _add_call(calls, place, call)
    text = "".join(texts)
    return {
        "type": "message",
        "id": first.get("id"),
        "model": first.get("model"),
        "stop_reason": stop_reason,
        "content": [
            *([{"type": "text", "text": text}] if text else ()),
            *map(_to_block, calls.values()),
        ],
        "usage": next(
            (as_object(part["usage"]) for part in reversed(parts) if part.get("usage")), {}
        ),
    }


def _list_parts(body: bytes, max_events: int) -> Iterator[Fields]:
    if body.lstrip().startswith(b"{"):
        yield parse_object(body) or {}
        return
    for event in islice(parse_events(body), max_events):
        if (document := parse_object(event.data)) is not None:
            yield document


def _add_call(calls: dict[object, dict[str, str]], place: int, part: Fields) -> None:
    """Add a tool call, or a part of one, which has its place in ``index``."""
    index = part.get("index", place)
    if type(index) is not int or (index not in calls and len(calls) >= MAX_TOOL_CALLS):
        return
    call = calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
    function = as_object(part.get("function"))
    call["id"] = as_text(part.get("id")) or call["id"]
    call["name"] += as_text(function.get("name"))
    call["arguments"] += as_text(function.get("arguments"))


def _to_block(call: Mapping[str, str]) -> dict[str, object]:
    parsed = parse_json(call["arguments"].encode("utf-8", "replace"))
    given = call["arguments"] if parsed is None else parsed
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": given}
