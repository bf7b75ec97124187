"""Reading all that the recorder wants of a request in one go: its fields, and its prompt."""

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
    """The wanted fields of a request, and its prompt.

    There are no fields where it is no JSON object. The prompt, as it was sent, is None where it is not
    known."""

    fields: Fields
    prompt: Prompt | None


class Requests(Protocol):
    """A reader of requests."""

    def read(self, text: bytes, *labels: object) -> ReadRequest:
        """Return what is in a request. ``labels`` tell conversations apart as far as the caller can."""


class RequestReader:
    """Reads requests, and remembers the last one of each conversation."""

    def __init__(self, memory: ConversationMemory | None = None) -> None:
        """Read requests with a memory of conversations, which may be shared with others."""
        self._requests = RepeatedRequests([FieldsAnalysis(), PromptAnalysis()], memory)
        self._trouble = TroubleLog(logger, "The prompt of a call cannot be read: %s")

    def read(self, text: bytes, *labels: object) -> ReadRequest:
        """Return what is in a request. Raises MemoryError only."""
        try:
            return ReadRequest(*self._requests.read(text, *labels))
        except MemoryError:
            raise
        except Exception as error:  # whatever it is, the entry is stored, without a judgement
            self._trouble.report(f"{type(error).__name__}: {error}")
            return ReadRequest(read_fields(parse_object(text), text), None)


class FieldReader:
    """Reads the fields of requests, without their prompts."""

    def __init__(self) -> None:
        self._requests = RepeatedRequests([FieldsAnalysis()])

    def read(self, text: bytes, *labels: object) -> ReadRequest:
        """Return the fields of a request."""
        (fields,) = self._requests.read(text, *labels)
        return ReadRequest(fields, None)
