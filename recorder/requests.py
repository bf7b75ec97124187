"""Reading of a request in one pass: its fields, and its prompt."""

import logging
from typing import NamedTuple, Protocol

from conversations.prompt_analysis import PromptAnalysis
from conversations.units import Prompt
from runtime.trouble_log import TroubleLog
from wire.conversation_memory import ConversationMemory
from wire.json_reading import parse_object
from wire.repeated_requests import RepeatedRequests
from wire.request_fields import Fields, FieldsAnalysis, read_fields

logger = logging.getLogger(__name__)


class ReadRequest(NamedTuple):
    """The fields of a request that the recorder needs, and its prompt as it was sent.

    The fields are empty if the request is not a JSON object. The prompt is None if it is not known."""

    fields: Fields
    prompt: Prompt | None


class Requests(Protocol):
    """A reader of requests."""

    def read(self, text: bytes, *labels: object) -> ReadRequest:
        """Return the fields and the prompt of a request. ``labels`` identify its conversation as far as
        known."""


class RequestReader:
    """A reader of requests that remembers the last one of each conversation."""

    def __init__(self, memory: ConversationMemory | None = None) -> None:
        """Read requests with a memory of conversations, which other readers may share."""
        self._requests = RepeatedRequests([FieldsAnalysis(), PromptAnalysis()], memory)
        self._trouble = TroubleLog(logger, "The prompt of a call cannot be read: %s")

    def read(self, text: bytes, *labels: object) -> ReadRequest:
        """Return the fields and the prompt of a request. Raises only MemoryError."""
        try:
            return ReadRequest(*self._requests.read(text, *labels))
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, the entry is stored, without a judgement
            self._trouble.report(f"{type(error).__name__}: {error}")
            return ReadRequest(read_fields(parse_object(text), text), None)


class FieldReader:
    """A reader of the fields of requests, without their prompts."""

    def __init__(self) -> None:
        self._requests = RepeatedRequests([FieldsAnalysis()])

    def read(self, text: bytes, *labels: object) -> ReadRequest:
        """Return the fields of a request; the prompt is None."""
        (fields,) = self._requests.read(text, *labels)
        return ReadRequest(fields, None)
