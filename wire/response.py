"""A response that is parsed while it arrives."""

from wire.content import ContentReader
from wire.envelope import Envelope, is_document, parse_event
from wire.sse import BLANK_LINE, looks_like_sse, normalize_lines, parse_events

MAX_EVENT_BYTES = 4_000_000
DECIDING_BYTES = 4096  # whether it is a stream


class GrowingResponse:
    """A response that is parsed while its decoded bytes arrive.

    ``is_full``: the rest is not read, because the response is not a stream or an event is too long."""

    def __init__(self) -> None:
        self.envelope = Envelope()
        self.content = ContentReader()
        self.is_stream = self.is_full = False
        self._rest = b""  # the beginning of an event

    def feed(self, text: bytes) -> None:
        """Read the bytes that arrived since the last call. Never raises."""
        if self.is_full:
            return
        text = self._rest + text
        self.is_stream = self.is_stream or (not is_document(text) and looks_like_sse(text))
        if self.is_stream:
            held = b"\r" if text.endswith(b"\r") else b""  # perhaps half of a line end
            text = normalize_lines(text.removesuffix(held))
            events, end, rest = text.rpartition(BLANK_LINE)
            self._read(events + end)
            text = rest + held
        self._rest = text
        if len(text) > (MAX_EVENT_BYTES if self.is_stream else DECIDING_BYTES):
            self.stop()

    def finish(self) -> None:
        """Read the rest at the end, an event without its blank line."""
        if self.is_stream:
            self._read(self._rest)
        self._rest = b""

    def stop(self) -> None:
        """Ignore the rest of the response."""
        self._rest, self.is_full = b"", True

    def _read(self, text: bytes) -> None:
        for event in parse_events(text):
            kind, document = parse_event(event)
            self.envelope.read(kind, document)
            self.content.read(kind, document)
