"""Requests that newer transcripts contain in parts, put together again.

A line ``api-request-shape`` has system prompt and tools, ``api-request-blob`` a message, both by a
hash. ``api-request`` has the parameters, the number of messages kept of its ``base``, the hashes of
the messages after those, and the places of cache markers. A message that the transcript has anyway has
no blob: its hash is that of its JSON with sorted keys. Messages are read from the file again when
needed, so that few are in memory."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from manage.transcripts.files import read_line
from wire.cache_markers import put_marker
from wire.json_reading import as_list, as_object, as_text

SHAPE, BLOB, REQUEST = "api-request-shape", "api-request-blob", "api-request"
KEPT_REQUESTS = 256  # that later ones may be based on
OPEN_MESSAGES = 16  # whose further blocks may come
MAX_REQUEST_BYTES = 33 << 20
_NO_FIELDS = ("betas",)  # of the parameters: it is a header


@dataclass(frozen=True, slots=True)
class _Request:
    shape: str
    params: Mapping[str, Any]
    messages: tuple[str, ...]
    markers: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Open:
    offsets: list[int]
    content: list[Any]


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A request: its body as it was probably sent, and the value of its betas header."""

    body: bytes
    betas: str | None


class Requests:
    """The requests of one transcript, collected while the transcript is read from its beginning."""

    def __init__(self, file: BinaryIO) -> None:
        """Read messages again from ``file``, whose position this moves."""
        self._file = file
        self._places: dict[str, tuple[int, ...]] = {}  # of shapes and messages, by their hashes
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._requests: OrderedDict[str, _Request] = OrderedDict()

    def note(self, line: Mapping[str, Any], offset: int) -> None:
        """Collect the part of a request in a line, if there is one. ``offset`` is the line's position in
        bytes."""
        kind = line.get("type")
        if kind in (SHAPE, BLOB):
            hash_ = as_text(line.get("shapeHash" if kind == SHAPE else "hash"))
            if hash_:
                self._places[hash_] = (offset,)
        elif kind == REQUEST:
            self._note_request(line)
        elif kind == "user":
            self._places[_hash(_strip(line))] = (offset,)
        elif kind == "assistant":
            self._note_block(line, offset)

    def rebuild(self, ref: str | None) -> Rebuilt | None:
        """Return the request ``ref``, None if a part is missing or it is too large. Raises OSError."""
        request = None if ref is None else self._requests.get(ref)
        if request is None:
            return None
        shape = as_object(self._load_shape(request.shape))
        messages, size = [], 0
        for hash_ in request.messages:
            message = self._load_message(hash_)
            if message is None:
                return None
            size += len(orjson.dumps(message))
            if size > MAX_REQUEST_BYTES:
                return None
            messages.append(message)
        fields = {name: each for name, each in request.params.items() if name not in _NO_FIELDS}
        document = {"model": fields.pop("model", None), "messages": messages, **shape, **fields}
        for marker in request.markers:
            put_marker(document, as_list(marker.get("path")), marker.get("value"))
        betas = [each for each in as_list(request.params.get("betas")) if isinstance(each, str)]
        return Rebuilt(orjson.dumps(document), ",".join(betas) or None)

    def _note_block(self, line: Mapping[str, Any], offset: int) -> None:
        """Collect a line of a response. Together with earlier lines it is a message of later requests."""
        id_ = as_text(as_object(line.get("message")).get("id"))
        known = self._open.setdefault(id_, _Open([], []))
        known.offsets.append(offset)
        known.content.extend(as_list(_strip(line)["content"]))
        message = {"role": "assistant", "content": known.content}
        self._places[_hash(message)] = tuple(known.offsets)
        while len(self._open) > OPEN_MESSAGES:
            self._open.popitem(last=False)

    def _note_request(self, line: Mapping[str, Any]) -> None:
        ref, keep = as_text(line.get("id")), line.get("keep")
        if not ref:
            return
        base = self._requests.get(as_text(line.get("base")))
        kept = keep if isinstance(keep, int) else 0
        if kept and (base is None or kept > len(base.messages)):
            return  # what it is based on is not known, so its messages are not
        before = base.messages[:kept] if base is not None else ()
        tail = [each for each in as_list(line.get("tail")) if isinstance(each, str)]
        self._requests[ref] = _Request(
            shape=as_text(line.get("shapeHash")),
            params=as_object(line.get("params")),
            messages=(*before, *tail),
            markers=tuple(as_object(each) for each in as_list(line.get("cacheControl"))),
        )
        while len(self._requests) > KEPT_REQUESTS:
            self._requests.popitem(last=False)

    def _load_shape(self, hash_: str) -> object:
        return next((each.get("shape") for each in self._load(hash_)), None)

    def _load_message(self, hash_: str) -> dict[str, Any] | None:
        lines = self._load(hash_)
        if not lines:
            return None
        if lines[0].get("type") == BLOB:
            return as_object(lines[0].get("message"))
        if len(lines) == 1:
            return _strip(lines[0])
        content = [block for each in lines for block in as_list(_strip(each)["content"])]
        return {"role": "assistant", "content": content}

    def _load(self, hash_: str) -> list[dict[str, Any]]:
        """Return the lines with the shape or message of this hash, empty if it is not known."""
        found = []
        for offset in self._places.get(hash_, ()):
            try:
                found.append(as_object(orjson.loads(read_line(self._file, offset))))
            except orjson.JSONDecodeError:
                return []
        return found


def _strip(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of a line with role and content alone, as requests have it."""
    message = as_object(line.get("message"))
    return {"role": message.get("role"), "content": message.get("content")}


def _hash(message: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(message, option=orjson.OPT_SORT_KEYS)).hexdigest()
