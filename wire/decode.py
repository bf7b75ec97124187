"""Decoding of bodies, whose content-encoding is undone.

A body is used in two ways: it is stored, and usage is read from it. The stored body must be exact,
so a body that cannot be decoded is stored as it came. For reading usage a beginning is enough: the
tokens of a stream whose last block is damaged are known nonetheless. Decoding is incremental. Input
goes in by small slices, because the output of a decoder in the call that fails is lost, and because
the output of one slice bounds how far a decompression bomb gets past its limit.

A body has one allowance for the output of all its encodings. It grows with the body: JSON and event
streams shrink to a fiftieth at best, and a body compressed to less than a hundredth is malicious.
Work without output counts too: each frame (gzip calls it a member) counts as some bytes, since an
empty one takes as long as these; and the output of an outer encoding counts twice, since an inner
one has to read it."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import brotli  # type: ignore[import-untyped]  # ships no types
import zstandard

MAX_DECODED_BYTES = 40 * 1024 * 1024  # the upstream takes requests of 32 MB
MAX_RATIO = 100
ALWAYS_DECODED_BYTES = 4 * 1024 * 1024  # whatever the ratio: short bodies of many spaces do occur
MAX_LAYERS = 3
FRAME_COST_BYTES = 256
SLICE_BYTES = 1024
ZSTD_SLICE_BYTES = 128
OUTPUT_STEP_BYTES = 1024 * 1024
ZSTD_WINDOW_BYTES = 8 * 1024 * 1024  # what RFC 9659 allows a sender of this content-encoding

type Problem = Literal[
    "truncated", "corrupt", "unknown_encoding", "too_many_encodings", "too_large"
]


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class DecodedBody:
    """A decoded body. ``body`` is for storing, ``text`` for reading usage.

    ``problem`` is None if both are complete."""

    body: bytes
    text: bytes
    problem: Problem | None = None

    @property
    def is_readable_to_its_end(self) -> bool:
        """Return whether no undecodable bytes can hide the end of the response."""
        return self.problem is None or self.problem == "truncated"


def decode_body(raw: bytes, content_encoding: str | None) -> DecodedBody:
    """Return the decoded body, with a ``problem`` if it cannot be decoded. Never raises."""
    layers = _parse_encodings(content_encoding) if content_encoding else ()
    if not layers or not raw:
        return DecodedBody(body=raw, text=raw)
    if len(layers) > MAX_LAYERS:
        return DecodedBody(body=raw, text=raw, problem="too_many_encodings")
    if any(layer not in _DECODERS for layer in layers):
        return DecodedBody(body=raw, text=raw, problem="unknown_encoding")
    text, problem = raw, None
    allowed = min(MAX_DECODED_BYTES, max(ALWAYS_DECODED_BYTES, MAX_RATIO * len(raw)))
    for layer in reversed(layers):  # named in the order they were applied
        decoded = _decode_layer(text, layer, allowed)
        text = decoded.output
        allowed -= decoded.cost + len(text)
        problem = _worse(problem, decoded.problem)
    # What did not decode at all may never have been encoded: some servers label plain errors so.
    text = text if text or problem is None else raw
    exact = problem is None or problem == "truncated"
    return DecodedBody(body=text if exact else raw, text=text, problem=problem)


class GrowingBody:
    """A decoder of a body that comes in parts.

    Parts after a damaged one, or beyond the allowance, are left out."""

    def __init__(self, content_encoding: str | None) -> None:
        layers = _parse_encodings(content_encoding) if content_encoding else []
        is_known = len(layers) <= MAX_LAYERS and all(layer in _DECODERS for layer in layers)
        makers = [_DECODERS[layer] for layer in reversed(layers)] if is_known else []
        self._decoders = [each[0]() for each in makers]
        # Of the ways to read one encoding the next is tried if this one gives nothing at all.
        self._others = list(makers[0][1:]) if len(makers) == 1 else []
        self._unread = b""
        self._fed = self._given = 0
        self._is_over = False

    def feed(self, raw: bytes) -> bytes:
        """Return the decoded bytes of a part. Never raises."""
        if not self._decoders or not raw:
            return raw
        if self._is_over:
            return b""
        self._fed += len(raw)
        self._unread += raw if self._others else b""
        try:
            text = self._decode(raw)
        except _ERRORS:
            return self._try_another()
        if text:
            self._others, self._unread = [], b""
        return text

    def _decode(self, raw: bytes) -> bytes:
        allowed = min(MAX_DECODED_BYTES, max(ALWAYS_DECODED_BYTES, MAX_RATIO * self._fed))
        for decoder in self._decoders:
            output = bytearray()
            for start in range(0, len(raw), SLICE_BYTES):
                for piece in decoder.feed(raw[start : start + SLICE_BYTES]):
                    output += piece
                    self._given += len(piece)
                    if self._given + FRAME_COST_BYTES * decoder.frames > allowed:
                        self._is_over = True
                        return b""
            raw = bytes(output)
        return raw

    def _try_another(self) -> bytes:
        if not self._others:
            self._is_over = True
            return b""
        self._decoders, raw, self._unread = [self._others.pop(0)()], self._unread, b""
        self._fed -= len(raw)
        return self.feed(raw)


def _parse_encodings(header: str) -> list[str]:
    names = [name.strip().lower() for name in header.split(",")]
    return [name for name in names if name and name != "identity"]


def _worse(first: Problem | None, second: Problem | None) -> Problem | None:
    """Return the worse of two problems.

    An inner layer always looks truncated if the outer one failed, so the failure takes precedence."""
    return second if first is None or (first == "truncated" and second is not None) else first


class _Decoder(Protocol):
    """The decoder of one content-encoding.

    ``feed`` yields decoded bytes, in bounded steps and at least one for each frame, and raises if the
    input is corrupt. ``frames`` counts the frames begun after the first."""

    frames: int

    def feed(self, data: bytes) -> Iterator[bytes]: ...
    @property
    def is_complete(self) -> bool: ...


class _CorruptError(Exception):
    pass


_ERRORS = (_CorruptError, zlib.error, brotli.error, zstandard.ZstdError)


class _Decoded(NamedTuple):
    """The output of one layer, and the bytes counted against its allowance."""

    output: bytes
    problem: Problem | None
    cost: int


def _decode_layer(raw: bytes, encoding: str, allowed: int) -> _Decoded:
    decoded, cost = _Decoded(b"", None, 0), 0
    for make in _DECODERS[encoding]:
        decoded = _run(raw, make, allowed - cost)
        cost += decoded.cost
        if decoded.output or decoded.problem != "corrupt":
            break
    return decoded._replace(cost=cost)


def _run(raw: bytes, make: Callable[[], _Decoder], allowed: int) -> _Decoded:
    decoder, output = make(), bytearray()

    def cost() -> int:
        return len(output) + FRAME_COST_BYTES * decoder.frames

    for start in range(0, len(raw), SLICE_BYTES):
        size = len(output)
        try:
            for piece in decoder.feed(raw[start : start + SLICE_BYTES]):
                output += piece
                if cost() > allowed:
                    return _Decoded(bytes(output[: max(allowed, 0)]), "too_large", cost())
        except _ERRORS:
            del output[size:]
            output += _salvage(raw, start, make, allowed - cost())
            return _Decoded(bytes(output), "corrupt", cost())
    return _Decoded(bytes(output), None if decoder.is_complete else "truncated", cost())


def _salvage(raw: bytes, start: int, make: Callable[[], _Decoder], allowed: int) -> bytes:
    """Return the bytes that the failing slice still gives byte by byte, with a second decoder."""
    decoder, output = make(), bytearray()
    for offset in range(0, start, SLICE_BYTES):
        for _ in decoder.feed(raw[offset : offset + SLICE_BYTES]):
            pass
    try:
        for offset in range(start, min(start + SLICE_BYTES, len(raw))):
            for piece in decoder.feed(raw[offset : offset + 1]):
                output += piece
                if len(output) > allowed:
                    return bytes(output[: max(allowed, 0)])
    except _ERRORS:
        pass  # expected: this slice failed before, and what it gave until then is the result
    return bytes(output)


class _Inflate:
    """The decoder of gzip, zlib and raw deflate.

    Only gzip may have several members, and zeros as padding."""

    def __init__(self, window_bits: int, *, has_members: bool) -> None:
        self._window_bits, self._has_members = window_bits, has_members
        self._stream = zlib.decompressobj(window_bits)
        self.frames = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._stream.eof:
                data = data.lstrip(b"\0") if self._has_members else data
                if not data:
                    return
                if not self._has_members:
                    raise _CorruptError
                self._stream = zlib.decompressobj(self._window_bits)
                self.frames += 1
            yield self._stream.decompress(data)  # at most 1032 times the slice
            data = self._stream.unused_data

    @property
    def is_complete(self) -> bool:
        return self._stream.eof


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self.frames = 0  # it knows but one

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream.is_finished():
            raise _CorruptError
        # What it holds back may be more than it was given to read: it is empty once it says nothing,
        # and not when it would take more input.
        piece = self._stream.process(data, output_buffer_limit=OUTPUT_STEP_BYTES)
        while piece:
            yield piece
            piece = self._stream.process(b"", output_buffer_limit=OUTPUT_STEP_BYTES)

    @property
    def is_complete(self) -> bool:
        return bool(self._stream.is_finished())


class _Zstd:
    """The decoder of zstd. Frames may follow each other.

    A block of 4 bytes may contain 128 KB, so each slice is fed in smaller slices."""

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        self._stream = self._context.decompressobj()
        self.frames = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), ZSTD_SLICE_BYTES):
            yield from self._feed_slice(data[start : start + ZSTD_SLICE_BYTES])

    def _feed_slice(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._stream.eof:
                self._stream = self._context.decompressobj()
                self.frames += 1
            yield self._stream.decompress(data)
            data = self._stream.unused_data

    @property
    def is_complete(self) -> bool:
        return self._stream.eof


def _gzip() -> _Decoder:
    return _Inflate(zlib.MAX_WBITS | 16, has_members=True)


# "deflate" is meant to be zlib's format, but servers have always sent the bare one too.
_DECODERS: dict[str, tuple[Callable[[], _Decoder], ...]] = {
    "gzip": (_gzip,),
    "x-gzip": (_gzip,),
    "deflate": (
        lambda: _Inflate(zlib.MAX_WBITS, has_members=False),
        lambda: _Inflate(-zlib.MAX_WBITS, has_members=False),
    ),
    "br": (_Brotli,),
    "zstd": (_Zstd,),
}
