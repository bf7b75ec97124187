"""The texts of a response, put together from the deltas of a stream.

A stream has its words in parts, which may end anywhere. Those of a block are joined before they are
decoded: most streams are written in one way, and a regular expression finds the parts in them ten times
as quickly as a parser. Where it does not find them all, each event is parsed.

The index and the search for credentials read the same responses, a moment after each other, so the parts of
short ones are remembered.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from store.traces.search.text import clean
from store.traces.search.walk import MAX_PIECE_CHARS, SKIPPED, Role, Texts, decode_string
from wire.json_reading import as_list, as_object, as_text, parse_json, parse_object
from wire.sse import looks_like_sse, parse_events

MAX_BYTES = 8 * 1024 * 1024  # a larger response is not searched
MAX_EVENTS = 50_000
MAX_DEPTH = 64
MAX_REMEMBERED, MAX_REMEMBERED_BYTES = 200, 16 * 1024
_DELTA = b'"content_block_delta"'
_PLAIN_DELTA = re.compile(
    rb'^data: ?\{"type": ?"content_block_delta", ?"index": ?(\d{1,4}), ?"delta": ?\{'
    rb'"type": ?"(?:text|thinking|input_json|signature)_delta", ?'
    rb'"(text|thinking|partial_json|signature)": ?"((?:[^"\\]++|\\.)*+)"',
    re.MULTILINE,
)
_START, _DATA = b'"content_block_start"', b"data:"
_OF_DELTA = {"text": "text", "thinking": "thinking", "partial_json": "input"}

type _Blocks = dict[int, dict[str, object]]
type _Deltas = dict[tuple[int, str], str]
type _Parts = tuple[Sequence[dict[str, object]], _Deltas]


def read_response(body: bytes) -> Texts:
    """Return the texts of a response, each with who said it, in order. Never raises."""
    if len(body) > MAX_BYTES:
        return []
    if looks_like_sse(body):
        content: list[object] = [block for _, block in sorted(_read_stream(body).items())]
    else:
        content = as_list(as_object(parse_object(body)).get("content"))
    texts: Texts = []
    left = MAX_PIECE_CHARS
    for role, text in _list_texts(content):
        if left <= 0:
            break
        texts.append((role, text[:left]))
        left -= len(text)
    return texts


def _list_texts(content: list[object]) -> Iterator[tuple[Role, str]]:
    for each in content:
        block = as_object(each)
        kind = as_text(block.get("type"))
        role: Role = "tool_result" if kind.endswith("tool_result") else "assistant"
        for name, value in block.items():
            if name not in SKIPPED:
                for text in _list_strings(value, is_free=name == "input"):
                    if cleaned := clean(text):
                        yield role, cleaned


def _list_strings(value: object, *, is_free: bool, depth: int = 0) -> Iterator[str]:
    """Yield the strings in a value that are no names of theirs, in order, as ``walk`` finds them."""
    if isinstance(value, str):
        yield value
    elif depth > MAX_DEPTH:
        return
    elif isinstance(value, list):
        for each in value:
            yield from _list_strings(each, is_free=is_free, depth=depth + 1)
    elif isinstance(value, dict):
        for name, each in value.items():
            if is_free or name not in SKIPPED:
                yield from _list_strings(each, is_free=is_free, depth=depth + 1)


def read_deltas(body: bytes) -> _Deltas:
    """Return the texts of a stream by block and name, each put together. Never raises."""
    return _read_parts(body)[1]


def _read_stream(body: bytes) -> _Blocks:
    return _make_blocks(*_read_parts(body))


def _read_parts(body: bytes) -> _Parts:
    """Return the beginnings of blocks, as they come in events, and the joined deltas. Neither may be
    changed: others get them too."""
    return _remember_parts(body) if len(body) <= MAX_REMEMBERED_BYTES else _take_apart(body)


def _take_apart(body: bytes) -> _Parts:
    if b"\r" not in body:
        found = _PLAIN_DELTA.findall(body)
        if len(found) == body.count(_DELTA):
            return _join(body, found)
    return _parse(body)


_remember_parts = lru_cache(maxsize=MAX_REMEMBERED)(_take_apart)


def _join(body: bytes, found: list[tuple[bytes, bytes, bytes]]) -> _Parts:
    parts: defaultdict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
    for index, name, part in found:
        parts[index, name].append(part)
    return (
        list(_iter_starts(body)),
        {
            (int(index), name.decode()): decode_string(b"".join(each))
            for (index, name), each in parts.items()
        },
    )


def _iter_starts(body: bytes) -> Iterator[dict[str, object]]:
    """Yield the events that begin blocks, where each is one line."""
    place = body.find(_START)
    while place >= 0:
        start = body.rfind(b"\n", 0, place) + 1
        end = body.find(b"\n", place)
        line = body[start : end if end >= 0 else len(body)]
        if line.startswith(_DATA):
            yield parse_object(line.removeprefix(_DATA)) or {}
        place = body.find(_START, start + len(line))


def _parse(body: bytes) -> _Parts:
    starts: list[dict[str, object]] = []
    parts: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for event in islice(parse_events(body), MAX_EVENTS):
        if b"content_block_" not in event.data:
            continue
        document = parse_object(event.data) or {}
        if document.get("type") == "content_block_start":
            starts.append(document)
        elif document.get("type") == "content_block_delta":
            index = document.get("index")
            for name, value in as_object(document.get("delta")).items():
                if isinstance(index, int) and isinstance(value, str):
                    parts[index, name].append(value)
    return starts, {key: "".join(each) for key, each in parts.items()}


def _make_blocks(starts: Iterable[dict[str, object]], deltas: _Deltas) -> _Blocks:
    blocks: _Blocks = {}
    for document in starts:
        index = document.get("index")
        if isinstance(index, int) and document.get("type") == "content_block_start":
            blocks[index] = dict(as_object(document.get("content_block")))
    for (index, name), joined in deltas.items():
        _add(blocks, index, name, joined)
    return blocks


def _add(blocks: _Blocks, index: int, name: str, joined: str) -> None:
    field = _OF_DELTA.get(name)
    if field is None:
        return
    block = blocks.setdefault(index, {})  # its start may be what was lost
    if field == "input":
        parsed = parse_json(joined.encode("utf-8", "surrogatepass"))
        block[field] = joined if parsed is None else parsed
    else:
        block[field] = as_text(block.get(field)) + joined
