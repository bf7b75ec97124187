"""The response of a call in flight, as far as it was spooled, in parts whose texts only grow."""

from dataclasses import dataclass, field

from runtime.safe_text import reveal
from store.spool.format import ResponseHead
from wire import response as wire
from wire.block import INPUT, TEXT, THINKING, Block
from wire.decode import GrowingBody
from wire.json_reading import as_text

MAX_CHARS = 2_000_000  # of a response, then its page says that it goes on
MAX_PARTS = 1_000
_LABELS = {"text": "Text", "thinking": "Thinking"}


class Part:
    """A content block as far as it was received, with invisible characters made visible."""

    def __init__(self, block: Block) -> None:
        name = reveal(as_text(block.fields.get("name"))[:100])
        kind = block.kind[:50]
        self.label = _LABELS.get(kind) or f"{kind.replace('_', ' ').capitalize()} {name}".strip()
        self.text = ""
        self._block = block
        self._read = 0

    def read(self) -> int:
        """Append what was received since the last time; return the number of new characters."""
        text = "".join(self._block.text(name) for name in (TEXT, THINKING, INPUT))
        new = text[self._read :]
        self._read = len(text)
        self.text += reveal(new)
        return len(new)


class GrowingResponse:
    """A response that is parsed while it is received. ``is_full``: it exceeds the limits, and its rest is
    ignored."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.is_full = False
        self.parts: list[Part] = []
        self._body: GrowingBody | None = None
        self._response = wire.GrowingResponse()
        self._chars = 0

    @property
    def is_stream(self) -> bool:
        return self._response.is_stream

    @property
    def error(self) -> str | None:
        """Return the message of upstream's error, None if there is none."""
        said = self._response.envelope
        if not said.is_error:
            return None
        return reveal(said.error_message[:1_000]) or "error"

    def read(self, head: ResponseHead | None, raw: bytes) -> None:
        """Add what was received since the last time: ``head`` if it is new, and bytes of the body."""
        if head is not None:
            self.head, self._body = head, GrowingBody(head.content_encoding)
        if self._body is None or self.is_full:
            return
        self._response.feed(self._body.feed(raw))
        blocks = self._response.content.blocks[:MAX_PARTS]
        self.parts += map(Part, blocks[len(self.parts) :])
        self._chars += sum(part.read() for part in self.parts)
        self.is_full = self._response.is_full or self._chars > MAX_CHARS


@dataclass(slots=True)
class Sent:
    """The record of what was sent to a page: the number of characters of each part of a growing response."""

    characters: dict[int, int] = field(default_factory=dict)

    def take_new(self, response: GrowingResponse) -> list[dict[str, object]]:
        """Return the parts that grew, each with its new text and its position, and mark them as sent."""
        found: list[dict[str, object]] = []
        for index, part in enumerate(response.parts):
            at = self.characters.get(index, -1)
            if len(part.text) > at:
                start = max(at, 0)
                found.append(
                    {"part": index, "label": part.label, "at": start, "text": part.text[start:]}
                )
                self.characters[index] = len(part.text)
        return found


def describe_status(response: GrowingResponse) -> str:
    """Return the status of a call in flight as a sentence for its page."""
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
