"""Output that came before a model declined, which decides whether a refusal is billed.

The counts do not tell: ``output_tokens`` may say 1 where nothing came. The content does. A block
carries output if any of its values is more than empty: text, thinking, a signature, the name or the
input of a tool. Blocks of type ``fallback`` divide the content: what stands before the first one is
of the model that was asked, what follows is of the next one.

Nothing else needs the content of a response, so this is asked only of the few where it matters.
"""

from collections.abc import Iterable, Mapping

from wire.json_reading import as_object, as_objects, parse_object
from wire.sse import parse_events

FALLBACK = "fallback"
_BLOCK_EVENTS = (b"content_block_",)
_NOT_OUTPUT = ("type", "index")


def find_outputs_in_document(content: object) -> list[bool]:
    """Return for each part of a message's content whether it carries output."""
    outputs = [False]
    for block in as_objects(content):
        _add(block, outputs)
    return outputs


def find_outputs_in_stream(body: bytes, parts: int) -> list[bool]:
    """Return for each of so many parts of a stream whether it carries output.

    A part whose beginning is not found, because the stream is too long to be read block by block, is
    said to carry output, as nearly all responses do."""
    outputs = [False]
    for event in parse_events(body, _BLOCK_EVENTS):
        if outputs[-1]:
            if len(outputs) == parts:
                break
            if FALLBACK.encode() not in event.data:  # only the next part is of interest
                continue
        document = parse_object(event.data) or {}
        _add(as_object(document.get("content_block") or document.get("delta")), outputs)
    return (outputs + [True] * parts)[:parts]


def is_fallback(block: Mapping[str, object]) -> bool:
    """Return whether a content block says that another model takes over."""
    return block.get("type") == FALLBACK


def find_fallbacks(content: object) -> Iterable[Mapping[str, object]]:
    """Return the blocks of a message's content that say that another model takes over."""
    return filter(is_fallback, as_objects(content))


def _add(block: Mapping[str, object], outputs: list[bool]) -> None:
    if is_fallback(block):
        outputs.append(False)
    elif not outputs[-1]:
        outputs[-1] = any(value for name, value in block.items() if name not in _NOT_OUTPUT)
