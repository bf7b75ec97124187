"""The answer of a call with the results of its tools, as the next call sent it back."""

from typing import NamedTuple

from dashboard.call.blocks.view import Block
from dashboard.call.conversation import Message
from dashboard.call.views import open_new
from store.traces.calls import predecessors
from store.traces.calls.call_reader import CallReader

_ANSWER = "assistant"


class Answer(NamedTuple):
    """An answer, the address of the body that it stands in, and the row id of that call."""

    message: Message
    address: str
    next_id: int

    @property
    def results(self) -> list[Block]:
        """Return the results of its tools, those of tools that failed first."""
        found = [block.result for block in self.message.blocks if block.result is not None]
        return sorted(found, key=lambda block: not block.is_error)


def find_answer(usage_id: int, reader: CallReader, *, is_plain: bool) -> Answer | None:
    """Return the answer of a call, None where no call continues it. ``is_plain`` is that of ``Room``.

    Raises sqlite3.Error, MissingPieceError."""
    for next_id in predecessors.list_next(reader.connection, usage_id):
        call = reader.find_call(next_id)
        new = None if call is None else open_new(call, reader, is_plain=is_plain)
        messages = () if new is None else new.messages or ()
        answer = next((message for message in messages if message.role == _ANSWER), None)
        if new is not None and answer is not None:
            return Answer(answer, new.address, next_id)
    return None
