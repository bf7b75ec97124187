"""Whole requests of message threads.

A request that continues a thread sends what is new and names a message: upstream has the rest. The
whole request consists of the earlier requests, each with its response, and this one. Its settings
and cache markers are its own; system prompt and tools are those of the request that began the
thread."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wire.block import MARKER
from wire.content import read_content
from wire.json_reading import as_list, parse_object
from wire.request import FRONT_FIELDS, Message


class Exchange(NamedTuple):
    """A request of a thread with its response."""

    request: bytes
    response: bytes


class WholeRequest(NamedTuple):
    """A request with all messages that the model got. ``sent`` is the number of those sent last."""

    document: dict[str, object]
    sent: int


def join_thread(before: Sequence[Exchange], request: bytes) -> WholeRequest | None:
    """Return the whole form of a request, or None if one of the requests is not a JSON object.

    ``before`` are the earlier exchanges of its thread, the first of which sent everything. Never
    raises."""
    own = parse_object(request)
    requests = [parse_object(each.request) for each in before]
    if own is None or None in requests:
        return None
    first = requests[0] if requests and requests[0] is not None else own
    messages: list[object] = []
    for exchange, document in zip(before, requests, strict=True):
        messages += as_list((document or {}).get("messages"))
        answer = make_answer(exchange.response)
        messages.append({"role": answer.role, "content": answer.content})
    sent = as_list(own.get("messages"))
    history = [_without_markers(message) for message in messages] if before else []
    whole = {name: _without_markers(first[name]) for name in FRONT_FIELDS if name in first}
    settings = {name: own[name] for name in own if not before or name not in FRONT_FIELDS}
    settings.pop("thread", None)
    return WholeRequest({**settings, **whole, "messages": [*history, *sent]}, len(sent))


def make_answer(response: bytes) -> Message:
    """Return a response in the form of the message in later requests."""
    return Message("assistant", [block.to_fields() for block in read_content(response).blocks])


def _without_markers(value: object) -> object:
    """Return a message, system prompt or tools without the cache markers of blocks."""
    if isinstance(value, list):
        return [_without_marker(each) for each in value]
    if isinstance(value, Mapping) and isinstance(value.get("content"), list):
        return {**value, "content": _without_markers(value["content"])}
    return value


def _without_marker(block: object) -> object:
    if not isinstance(block, Mapping):
        return block
    bare = {name: value for name, value in block.items() if name != MARKER}
    if isinstance(bare.get("content"), list):
        bare["content"] = _without_markers(bare["content"])
    return bare
