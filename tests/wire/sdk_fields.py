"""The fields of requests and responses as the SDK types them, as paths: ``usage.iterations[].type``.

A field without parts is a path, and so is each value that it may have (``speed=fast``). Left out are names
of models and betas, which are listed elsewhere, and what is within blocks and tools, except for their
types, their cache markers, and the blocks that say which model ran."""

import types
from collections.abc import Iterable, Iterator, Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

from anthropic.types import (
    Message,
    MessageCreateParams,
    RawMessageDeltaEvent,
    RawMessageStreamEvent,
)
from anthropic.types.beta import (
    BetaFallbackBlock,
    BetaMessage,
    BetaRawMessageDeltaEvent,
    BetaRawMessageStreamEvent,
)
from anthropic.types.beta.message_create_params import MessageCreateParams as BetaCreateParams
from anthropic.types.beta.messages import BetaMessageBatchIndividualResponse
from anthropic.types.beta.messages.batch_create_params import (
    BatchCreateParams as BetaBatchCreateParams,
)
from anthropic.types.messages import BatchCreateParams, MessageBatchIndividualResponse
from pydantic import BaseModel
from typing_extensions import get_type_hints, is_typeddict

# What these have is what a request or response has: of a line of a batch, and of the end of a stream.
_WHOLE = {"requests[].params", "result.message", "delta"}
_LISTS = (list, Iterable, Sequence)
_BLOCKS = ("content[]", "system[]", "tools[]")
_OF_A_BLOCK = {"type", "cache_control", "content"}
_ONCE = {"cache_control", "output_config", "thinking"}  # the request's own are taken apart


class Field(NamedTuple):
    """A field without parts, or one of the values that it may have (``usage.speed=fast``)."""

    path: str
    is_number: bool


def list_request_fields() -> set[Field]:
    """Return the fields of a request for a message or for a batch of them, stable and beta."""
    roots = (MessageCreateParams, BetaCreateParams, BatchCreateParams, BetaBatchCreateParams)
    return {field for root in roots for field in _walk(root, "")}


def list_response_fields() -> set[Field]:
    """Return the fields of a message, stable and beta, of the end of a stream, which adds to it, and of
    a line of a batch's results."""
    messages = (Message, BetaMessage, RawMessageDeltaEvent, BetaRawMessageDeltaEvent)
    lines = (MessageBatchIndividualResponse, BetaMessageBatchIndividualResponse)
    return {field for root in (*messages, *lines) for field in _walk(root, "")}


def list_stream_events() -> set[str]:
    """Return the types of the events of a stream, and of the parts that blocks come in."""
    found = set()
    for event in (RawMessageStreamEvent, BetaRawMessageStreamEvent):
        for field in _walk(event, "event"):
            if field.path.startswith(("event.type=", "event.delta.type=")):
                found.add(field.path)
    return found


def _walk(kind: Any, path: str) -> Iterator[Field]:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Annotated, Required, NotRequired):
        yield from _walk(parts[0], path)
    elif origin in _LISTS:
        yield from _walk(parts[0], f"{path}[]")
    elif origin in (Union, types.UnionType):
        for part in parts:
            if part is not types.NoneType:
                yield from _walk(part, path)
    elif origin is Literal:
        if not path.endswith(("model", "betas[]")):
            yield from (Field(f"{path}={_write(value)}", False) for value in parts)
    elif (fields := _list_fields(kind)) is not None:
        yield from _walk_object(kind, fields, path)
    else:
        yield Field(path, kind in (int, float))


def _walk_object(kind: Any, fields: dict[str, Any], path: str) -> Iterator[Field]:
    parent, _, name = path.rpartition(".")
    if name in _ONCE and parent:
        yield Field(path, False)
        return
    if name == "content":  # a result of one of upstream's tools: each has fields of its own
        return
    is_block = name in _BLOCKS and (bool(parent) or kind is not BetaFallbackBlock)
    kept = _OF_A_BLOCK if _BLOCKS[0] not in parent else _OF_A_BLOCK - {"content"}
    for part, annotation in fields.items():
        if not is_block or part in kept:
            place = "" if path in _WHOLE else path
            yield from _walk(annotation, f"{place}.{part}".lstrip("."))


def _list_fields(kind: Any) -> dict[str, Any] | None:
    """Return the fields of an object with their types, or None for what is no object."""
    if is_typeddict(kind):
        return get_type_hints(kind, include_extras=True)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    return None


def _write(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
