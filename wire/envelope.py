"""The envelope of a response, without its content: model, usage, stop reason, error, fallbacks."""

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wire.block import FALLBACK
from wire.json_reading import (
    as_object,
    as_objects,
    as_text,
    clean_text,
    parse_object,
)
from wire.sse import BYTE_ORDER_MARK, Event, parse_events
from wire.usage_object import MAX_FIELDS, NO_USAGE, NOTHING, PASSES, Fields, UsageObject

MAX_FALLBACKS = 16  # upstream takes three
REFUSAL = "refusal"
# An event without one of these says nothing that is read here. A fallback is announced as a content block
# that names the model taking over.
MARKERS: Final = (b"message_", b"error", b"fallback")

_DOCUMENT = re.compile(b"(?:%s)?[ \t\r\n]*+\\{" % BYTE_ORDER_MARK)


class Fallback(NamedTuple):
    """A hand-over: the model that declined, the one that took over, and the category of the refusal."""

    from_model: str | None
    to_model: str | None
    category: str | None


@dataclass(slots=True, kw_only=True)
class Envelope:
    """A response without its content, as far as it has come.

    ``message`` is the document, or the message that a stream begins with; ``ending`` has the fields
    that later events replace. ``model`` is the one named last, ``fallbacks`` are the hand-overs in
    order, and ``edits`` what upstream removed from the request. ``has_start``, ``has_end``: the event
    has come. ``error`` is the error object, empty without one; ``is_error``: the response is an error,
    or ended with one."""

    is_document: bool = False
    message: Fields = NOTHING
    ending: dict[str, object] = field(default_factory=dict)
    model: str | None = None
    stop_reason: str | None = None
    container_id: str | None = None
    refusal_category: str | None = None
    fallbacks: list[Fallback] = field(default_factory=list)
    has_start: bool = False
    has_end: bool = False
    is_error: bool = False
    error: Fields = NOTHING
    edits: list[dict[str, object]] = field(default_factory=list)
    started: UsageObject = NO_USAGE
    counted: UsageObject = NO_USAGE

    @property
    def id(self) -> str | None:
        """Return upstream's id of the message, which later requests refer to."""
        return clean_text(self.message.get("id"))

    @property
    def fields(self) -> dict[str, object]:
        """Return the fields of the message, with those that later events replaced."""
        return {**self.message, **self.ending}

    @property
    def usage(self) -> UsageObject:
        """Return the usage object, in the form that a document has."""
        return self.started.merge(self.counted) if self.counted.fields else self.started

    @property
    def has_passes(self) -> bool:
        """Return whether the usage object lists passes, without building the object."""
        return PASSES in self.started.fields or PASSES in self.counted.fields

    @property
    def dropped_thinking(self) -> int:
        """Return how many blocks of earlier thinking upstream has removed from the request."""
        name = "input_transformations"
        changes = self.ending.get(name, self.message.get(name))
        if not changes:  # as nearly always
            return 0
        return sum(each.get("type") == "thinking_dropped" for each in as_objects(changes))

    @property
    def error_type(self) -> str | None:
        """Return upstream's type of the error."""
        return clean_text(self.error.get("type"))

    @property
    def error_message(self) -> str:
        """Return upstream's message about the error, "" without one."""
        return as_text(self.error.get("message"))

    @property
    def cache_miss(self) -> Fields:
        """Return upstream's diagnosis of a cache miss: ``type``, ``cache_missed_input_tokens``."""
        return as_object(as_object(self.message.get("diagnostics")).get("cache_miss_reason"))

    def read(self, kind: str, document: Fields) -> None:
        """Add a parsed event."""
        match kind:
            case "message_start":
                message = as_object(document.get("message"))
                self.has_start, self.message = True, message
                self.model = clean_text(message.get("model")) or self.model
                self.started = self.started.merge(UsageObject.read(message.get("usage")))
            case "message_delta":
                delta = as_object(document.get("delta"))
                self._read_stop(delta)
                for name, value in list(delta.items())[:MAX_FIELDS]:
                    if value is not None:
                        self.ending[name] = value
                self.counted = self.counted.merge(UsageObject.read(document.get("usage")))
                self.edits = _list_edits(document) or self.edits
            case "content_block_start":
                block = as_object(document.get("content_block"))
                if is_fallback(block):
                    self.model = read_model(block.get("to")) or self.model
                    self._add_fallback(block)
            case "message_stop":
                self.has_end = True
            case "error":
                self.is_error, self.error = True, as_object(document.get("error")) or self.error

    def read_document(self, document: Fields) -> None:
        """Read a response that is not a stream."""
        self.is_document, self.message = True, document
        self.is_error = document.get("type") == "error"
        self.error = as_object(document.get("error"))
        self.model = clean_text(document.get("model"))
        self._read_stop(document)
        self.started = self.started.merge(UsageObject.read(document.get("usage")))
        self.edits = _list_edits(document)
        for block in filter(is_fallback, as_objects(document.get("content"))):
            self._add_fallback(block)

    def _read_stop(self, message: Fields) -> None:
        self.stop_reason = clean_text(message.get("stop_reason")) or self.stop_reason
        container = as_object(message.get("container"))
        self.container_id = clean_text(container.get("id")) or self.container_id
        if self.stop_reason == REFUSAL:
            details = as_object(message.get("stop_details"))
            self.refusal_category = clean_text(details.get("category")) or self.refusal_category

    def _add_fallback(self, block: Fields) -> None:
        if len(self.fallbacks) < MAX_FALLBACKS:
            category = clean_text(as_object(block.get("trigger")).get("category"))
            self.fallbacks.append(
                Fallback(read_model(block.get("from")), read_model(block.get("to")), category)
            )


NO_ENVELOPE: Final = Envelope()


def read_envelope(body: bytes) -> Envelope:
    """Return the envelope of a decoded body, whole or cut off. Never raises."""
    envelope = Envelope()
    if is_document(body):
        document = parse_object(body)
        if document is not None:
            envelope.read_document(document)
        return envelope
    for event in parse_events(body, MARKERS):
        envelope.read(*parse_event(event))
    return envelope


def is_document(body: bytes) -> bool:
    """Return whether a body is a JSON object, by its beginning.

    The content type is ignored, because gateways send errors as JSON with the type of a stream."""
    return _DOCUMENT.match(body) is not None


def parse_event(event: Event) -> tuple[str, Fields]:
    """Return the kind of an event (its type, otherwise its name) and its document.

    If the document is not a JSON object, as in a stream that was cut off, it is empty, and the kind is
    "error" or ""."""
    document = parse_object(event.data)
    if document is None:
        return ("error" if event.name == "error" else ""), NOTHING
    return as_text(document.get("type")) or event.name, document


def is_fallback(block: Fields) -> bool:
    """Return whether another model takes over at this content block."""
    return block.get("type") == FALLBACK


def read_model(info: object) -> str | None:
    """Return the model's name in an object of a fallback, or None."""
    return clean_text(as_object(info).get("model"))


def _list_edits(document: Fields) -> list[dict[str, object]]:
    """Return the edits by which upstream shortened the history, as a message or an event lists them."""
    if "context_management" not in document:
        return []
    return as_objects(as_object(document["context_management"]).get("applied_edits"))
