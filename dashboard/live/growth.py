"""The response of a call in flight, as far as the spool has it, in parts of text that only grow."""

from dataclasses import dataclass, field

from runtime.safe_text import reveal
from store.spool.format import ResponseHead
from wire.decode import GrowingBody
from wire.json_reading import as_object, as_text, parse_object
from wire.sse import looks_like_sse, parse_events

MAX_CHARS = 2_000_000  # of a response, then its page says that it goes on
MAX_PARTS = 1_000
MAX_EVENT_BYTES = 4_000_000
DECIDING_BYTES = 4096  # whether it is a stream
_EVENT_END = b"\n\n"
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


@dataclass(slots=True)
class Part:
    """A content block as far as it has come. ``kind`` is that of the upstream, such as ``tool_use``."""

    kind: str
    name: str
    _texts: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Add what has come. Text that grew by each delta itself would be copied as often."""
        self._texts.append(text)

    @property
    def text(self) -> str:
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    @property
    def label(self) -> str:
        if self.kind in _LABELS:
            return _LABELS[self.kind]
        return f"{self.kind.replace('_', ' ').capitalize()} {self.name}".strip()


_LABELS = {"text": "Text", "thinking": "Thinking"}


@dataclass(slots=True)
class GrowingResponse:
    """A response that is read as it comes. ``parts`` have the text so far, with hidden characters shown by
    name. ``is_full``: there is more than is kept."""

    head: ResponseHead | None = None
    is_stream: bool = False
    is_ended: bool = False
    is_full: bool = False
    error: str | None = None
    parts: dict[int, Part] = field(default_factory=dict)
    _body: GrowingBody | None = None
    _rest: bytes = b""  # the beginning of an event
    _chars: int = 0

    def read(self, head: ResponseHead | None, raw: bytes) -> None:
        """Take what has come since the last time: the head, once, and bytes of the body."""
        if head is not None:
            self.head, self._body = head, GrowingBody(head.content_encoding)
        if self._body is None or self.is_full:
            return
        text = (self._rest + self._body.feed(raw)).replace(b"\r\n", b"\n")
        self.is_stream = self.is_stream or looks_like_sse(text)
        end = text.rfind(_EVENT_END) + len(_EVENT_END) if self.is_stream else 0
        if end >= len(_EVENT_END):
            for event in parse_events(text[:end]):
                self._take(as_object(parse_object(event.data)))
            text = text[end:]
        self._rest = text
        if len(text) > (MAX_EVENT_BYTES if self.is_stream else DECIDING_BYTES):
            self._rest, self.is_full = b"", True

    def _take(self, event: dict[str, object]) -> None:
        index = event.get("index")
        match event.get("type"):
            case "content_block_start" if isinstance(index, int) and len(self.parts) < MAX_PARTS:
                block = as_object(event.get("content_block"))
                kind, name = as_text(block.get("type")), as_text(block.get("name"))
                self.parts[index] = Part(kind[:50], reveal(name[:100]))
                self._add(index, as_text(block.get("text")))
            case "content_block_delta" if isinstance(index, int):
                delta = as_object(event.get("delta"))
                self._add(index, as_text(delta.get(_DELTAS.get(as_text(delta.get("type")), ""))))
            case "error":
                error = as_object(event.get("error"))
                self.error = reveal(as_text(error.get("message"))[:1_000]) or "error"
            case "message_stop":
                self.is_ended = True

    def _add(self, index: int, text: str) -> None:
        part = self.parts.get(index)
        if part is None or not text:
            return
        self._chars += len(text)
        self.is_full = self._chars > MAX_CHARS
        part.add(reveal(text))


@dataclass(slots=True)
class Sent:
    """The share of a growing response that somebody was sent, as the characters of each part."""

    characters: dict[int, int] = field(default_factory=dict)

    def take_new(self, response: GrowingResponse) -> list[dict[str, object]]:
        """Return the parts that grew, each with its new text and where that begins."""
        found: list[dict[str, object]] = []
        for index, part in response.parts.items():
            at = self.characters.get(index, -1)
            if len(part.text) > at:
                start = max(at, 0)
                found.append(
                    {"part": index, "label": part.label, "at": start, "text": part.text[start:]}
                )
                self.characters[index] = len(part.text)
        return found


def describe_status(response: GrowingResponse) -> str:
    """Return where a call stands, for its page."""
    if response.error is not None:
        return f"The upstream sent an error: {response.error}"
    if response.head is None:
        return "Waiting for the upstream."
    if response.head.status_code != 200:
        return f"The upstream responded with status {response.head.status_code}."
    if not response.is_stream:
        return (
            "Responding. The text shows when the response is complete, because it is not streamed."
        )
    if response.is_full:
        return "Responding. This page shows no more of it; the page of the call has all."
    return "Responding."
