"""A response, of which nothing is parsed before it is asked for, and one that is read as it comes."""

from functools import cached_property

from wire.content import Content, ContentReader, read_content
from wire.envelope import Envelope, find_kind, is_document, read_envelope
from wire.json_reading import parse_object
from wire.sse import Event, looks_like_sse, parse_events

MAX_EVENT_BYTES = 4_000_000
DECIDING_BYTES = 4096  # whether it is a stream
_EVENT_END = b"\n\n"


class Response:
    """A decoded body, whole or cut."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    @cached_property
    def is_document(self) -> bool:
        """Return whether the body is a JSON object, or the beginning of one."""
        return is_document(self.body)

    @cached_property
    def is_stream(self) -> bool:
        """Return whether the body looks like a stream of events."""
        return not self.is_document and looks_like_sse(self.body)

    @cached_property
    def envelope(self) -> Envelope:
        """Return what it says around its content."""
        return read_envelope(self.body)

    @cached_property
    def content(self) -> Content:
        """Return its content."""
        return read_content(self.body)


class GrowingResponse:
    """A response that is read as its decoded bytes come.

    ``is_full``: no more of it is read, because it is no stream or an event of it is too long."""

    def __init__(self) -> None:
        self.envelope = Envelope()
        self.content = ContentReader()
        self.is_stream = self.is_full = False
        self._rest = b""  # the beginning of an event

    def feed(self, text: bytes) -> None:
        """Read what has come since the last time. Never raises."""
        if self.is_full:
            return
        text = self._rest + text
        self.is_stream = self.is_stream or (not is_document(text) and looks_like_sse(text))
        if self.is_stream:
            held = b"\r" if text.endswith(b"\r") else b""  # perhaps half of a line end
            text = text.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            end = text.rfind(_EVENT_END) + len(_EVENT_END)
            if end >= len(_EVENT_END):
                self._read(text[:end])
                text = text[end:]
            text += held
        self._rest = text
        if len(text) > (MAX_EVENT_BYTES if self.is_stream else DECIDING_BYTES):
            self.stop()

    def finish(self) -> None:
        """Read what is left at the end, an event without its blank line."""
        if self.is_stream:
            self._read(self._rest)
        self._rest = b""

    def stop(self) -> None:
        """Read no more of it."""
        self._rest, self.is_full = b"", True

    def _read(self, text: bytes) -> None:
        for event in parse_events(text):
            self._take(event)

    def _take(self, event: Event) -> None:
        document = parse_object(event.data)
        if document is None:
            self.envelope.take(event)
            return
        kind = find_kind(event, document)
        self.envelope.read(kind, document)
        self.content.read(kind, document)
