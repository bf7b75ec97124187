"""Whole prompts of requests that continue a message thread.

Such a request sends only what is new and names the message that it continues, so its prompt is that of the
call which has that message, with what that one answered. Prompts are remembered, since each is the beginning
of the next; after a restart they are made again from the stored calls.

There is none where a call of the thread is missing, was not kept, or has an answer that was cut: part of a
prompt would explain nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import pairwise

from conversations.units import Prompt, TooManyUnitsError, continue_prompt
from recorder.recorded_calls import RecordedCall
from wire.content import read_content
from wire.json_reading import parse_object

MAX_KEPT = 200
MAX_LINKS, MAX_BYTES = 1_000, 16 * 1024 * 1024  # read again for one prompt

type FindParent = Callable[[RecordedCall], RecordedCall | None]
type ReadPrompt = Callable[[RecordedCall], Prompt | None]


class ThreadPrompts:
    """The prompts of the latest calls of message threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Prompt] = OrderedDict()

    def read(
        self, owner: str, call: RecordedCall, find_parent: FindParent, read_prompt: ReadPrompt
    ) -> Prompt | None:
        """Return the whole prompt of a call of a thread, None where that cannot be known.

        ``find_parent`` returns the call that another one continues, ``read_prompt`` the prompt of a request
        that sends all of it."""
        chain, size = [call], 0
        while not self._knows(owner, chain[-1]) and chain[-1].entry.thread == "continue":
            parent = find_parent(chain[-1])
            if parent is None or not _is_whole(parent):
                return None
            chain.append(parent)
            size += len(parent.request or b"") + len(parent.response)
            if len(chain) > MAX_LINKS or size > MAX_BYTES:
                return None
        prompt = self._known.get((owner, chain[-1].entry.entry_id)) or read_prompt(chain[-1])
        self._keep(owner, chain[-1], prompt)
        for parent, child in pairwise(reversed(chain)):
            prompt = None if prompt is None else _continue(prompt, parent, child)
            self._keep(owner, child, prompt)
        return prompt

    def _knows(self, owner: str, call: RecordedCall) -> bool:
        return (owner, call.entry.entry_id) in self._known

    def _keep(self, owner: str, call: RecordedCall, prompt: Prompt | None) -> None:
        if prompt is None:
            return
        key = owner, call.entry.entry_id
        self._known[key] = prompt
        self._known.move_to_end(key)
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)


def choose_parent(call: RecordedCall, named: Iterable[RecordedCall]) -> RecordedCall | None:
    """Return of calls with the message that a call names the one that it continues, or None.

    Gateways use ids again: the same credential decides, then session and agent, then the latest."""
    entry = call.entry
    before = [
        each
        for each in named
        if each.entry.status_code == 200
        and (each.entry.created_at, each.entry.entry_id) < (entry.created_at, entry.entry_id)
    ]
    return max(
        before,
        key=lambda each: (
            each.entry.credential_hmac == entry.credential_hmac,
            (each.entry.session_id, each.entry.agent_id) == (entry.session_id, entry.agent_id),
            each.entry.created_at,
        ),
        default=None,
    )


def _is_whole(call: RecordedCall) -> bool:
    """Return whether a call has its request, and all of what it answered."""
    is_ended = call.usage.is_document or call.usage.has_message_stop
    return call.request is not None and bool(call.response) and is_ended


def _continue(before: Prompt, parent: RecordedCall, call: RecordedCall) -> Prompt | None:
    request = parse_object(call.request or b"")
    if request is None:
        return None
    answer = [block.to_fields() for block in read_content(parent.response).blocks]
    try:
        return continue_prompt(before, answer, request)
    except TooManyUnitsError:
        return None
