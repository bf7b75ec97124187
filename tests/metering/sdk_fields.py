"""The fields of a response as the installed SDK types them, as paths: ``usage.iterations[].type``."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from anthropic.types import Message, RawMessageDeltaEvent
from anthropic.types.beta import BetaFallbackBlock, BetaMessage, BetaRawMessageDeltaEvent
from pydantic import BaseModel

_ROOTS = (Message, BetaMessage, RawMessageDeltaEvent, BetaRawMessageDeltaEvent)


class Field(NamedTuple):
    """A field without parts, or one of the values that it may have (``usage.speed=fast``)."""

    path: str
    is_number: bool


def list_fields() -> set[Field]:
    """Return the fields of messages and of what follows in a stream, stable and beta.

    Of blocks of content there is the type alone, except for those that say which model ran. The
    names of models are left out: they have a test of their own."""
    return {field for root in _ROOTS for field in _walk(root, "")}


def _walk(kind: Any, path: str) -> Iterator[Field]:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated or origin is list:
        yield from _walk(parts[0], f"{path}[]" if origin is list else path)
    elif origin in (Union, types.UnionType):
        for part in parts:
            if part is not types.NoneType:
                yield from _walk(part, path)
    elif origin is Literal:
        if not path.endswith("model"):
            yield from (Field(f"{path}={value}", False) for value in parts)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _walk_model(kind, path)
    else:
        yield Field(path, kind in (int, float))


def _walk_model(model: type[BaseModel], path: str) -> Iterator[Field]:
    is_block = path == "content[]" and model is not BetaFallbackBlock
    for name, field in model.model_fields.items():
        if not is_block or name == "type":
            # In a stream, what is not usage comes in ``delta``.
            place = "" if path == "delta" else path
            yield from _walk(field.annotation, f"{place}.{field.alias or name}".lstrip("."))
