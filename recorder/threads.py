"""Whole prompts of requests that continue a message thread.

Such a request sends only what is new and names the message that it continues. So its prompt
consists of the prompt of the call with that message, of the response of that call, and of what is
new. Prompts are remembered, since each is the beginning of the next; after a restart they are made
again from the stored calls.

The prompt is unknown if a call of the thread is missing, was not kept, or its response was cut off:
a part of a prompt would explain nothing."""

from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise

from conversations.units import Prompt, TooManyUnitsError, continue_prompt
from recorder.recorded_calls import RecordedCall
from wire.json_reading import parse_object
from wire.request import Request
from wire.threads import Exchange, join_thread, make_answer

MAX_KEPT = 200
MAX_LINKS, MAX_BYTES = 1_000, 16 * 1024 * 1024  # read again for one prompt

type FindParent = Callable[[RecordedCall], RecordedCall | None]
type ReadPrompt = Callable[[RecordedCall], Prompt | None]


class ThreadPrompts:
    """The prompts of the latest calls of message threads, None for those that cannot be known."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Prompt | None] = OrderedDict()

    def read(
        self, owner: str, call: RecordedCall, find_parent: FindParent, read_prompt: ReadPrompt
    ) -> Prompt | None:
        """Return the whole prompt of a call of a thread, or None if it cannot be known.

        ``find_parent`` returns the call that another one continues, ``read_prompt`` the prompt of a
        request that sends all of it."""

        def is_known(each: RecordedCall) -> bool:
            return (owner, each.entry.entry_id) in self._known

        chain = list_chain(call, find_parent, is_known)
        if chain is None:
            return self._keep(owner, call, None)
        first = chain[-1]
        prompt = self._known[owner, first.entry.entry_id] if is_known(first) else read_prompt(first)
        self._keep(owner, first, prompt)
        for parent, child in pairwise(reversed(chain)):
            prompt = None if prompt is None else _continue(prompt, parent, child)
            self._keep(owner, child, prompt)
        return prompt

    def forget(self, owner: str, entry_id: str) -> None:
        """Forget the prompt of a call, or the fact that it cannot be known."""
        self._known.pop((owner, entry_id), None)

    def _keep(self, owner: str, call: RecordedCall, prompt: Prompt | None) -> Prompt | None:
        key = owner, call.entry.entry_id
        self._known[key] = prompt
        self._known.move_to_end(key)
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        return prompt


def list_chain(
    call: RecordedCall,
    find_parent: FindParent,
    is_known: Callable[[RecordedCall], bool] = lambda _: False,
) -> list[RecordedCall] | None:
    """Return a call and the earlier ones of its thread, latest first.

    The last one is known (``is_known``) or has sent everything. None if a call is missing, lacks a
    body, or there are too many."""
    chain, size = [call], 0
    while not is_known(chain[-1]) and chain[-1].entry.thread == "continue":
        parent = find_parent(chain[-1])
        if parent is None or not _is_whole(parent):
            return None
        chain.append(parent)
        size += len(parent.request or b"") + len(parent.response)
        if len(chain) > MAX_LINKS or size > MAX_BYTES:
            return None
    return chain


def read_request(call: RecordedCall, find_parent: FindParent) -> Request | None:
    """Return the request of a call, in a thread the whole one, or None if it cannot be known."""
    chain = list_chain(call, find_parent)
    if chain is None:
        return None
    before = [Exchange(each.request or b"", each.response) for each in reversed(chain[1:])]
    whole = join_thread(before, call.request or b"")
    return None if whole is None else Request(whole.document)


def _is_whole(call: RecordedCall) -> bool:
    """Return whether a call has its request and a response that was not cut off."""
    is_ended = call.usage.is_document or call.usage.has_message_stop
    return call.request is not None and bool(call.response) and is_ended


def _continue(before: Prompt, parent: RecordedCall, call: RecordedCall) -> Prompt | None:
    request = parse_object(call.request or b"")
    if request is None:
        return None
    try:
        return continue_prompt(before, make_answer(parent.response), request)
    except TooManyUnitsError:
        return None
