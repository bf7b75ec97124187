"""The texts of a response, for the index and for the search for credentials."""

from collections.abc import Iterator, Sequence

from store.traces.search.text import clean
from store.traces.search.walk import MAX_PIECE_CHARS, Role, Texts
from wire.block import Block
from wire.content import read_content
from wire.request_strings import NO_TEXT

MAX_BYTES = 8 * 1024 * 1024  # a larger response is not searched
MAX_DEPTH = 64


def read_response(body: bytes) -> Texts:
    """Return (role, text) for the texts of a response, in order. Never raises."""
    if len(body) > MAX_BYTES:
        return []
    texts: Texts = []
    left = MAX_PIECE_CHARS
    for role, text in _list_texts(read_content(body).blocks):
        if left <= 0:
            break
        texts.append((role, text[:left]))
        left -= len(text)
    return texts


def _list_texts(blocks: Sequence[Block]) -> Iterator[tuple[Role, str]]:
    for block in blocks:
        role: Role = "tool_result" if block.is_result else "assistant"
        for name, value in block.to_fields().items():
            if name not in NO_TEXT:
                for text in _list_strings(value, is_free=name == "input"):
                    if cleaned := clean(text):
                        yield role, cleaned


def _list_strings(value: object, *, is_free: bool, depth: int = 0) -> Iterator[str]:
    """Yield the strings in a JSON value that may be text, in order.

    Object names and the values of ``NO_TEXT`` are left out. ``is_free``: values under any name are
    text, as in the input of a tool."""
    if isinstance(value, str):
        yield value
    elif depth > MAX_DEPTH:
        return
    elif isinstance(value, list):
        for each in value:
            yield from _list_strings(each, is_free=is_free, depth=depth + 1)
    elif isinstance(value, dict):
        for name, each in value.items():
            if is_free or name not in NO_TEXT:
                yield from _list_strings(each, is_free=is_free, depth=depth + 1)
