"""The contents of a call's prompt in a few lines, for the column beside the conversation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from conversations.cache_rules import read_own_rules
from conversations.context import Context, read_context
from conversations.prompt_bill import read_prompt_bill
from conversations.token_shares import Share
from dashboard.context.words import TITLES
from store.traces.calls.call_reader import Call, CallReader
from store.traces.calls.threads import read_whole_request

MAX_BYTES = 1 << 20  # of a request that is taken apart for a few lines
_MAX_ROWS = 5
_LEAST_SHARE = 0.002  # of a prompt: what is less is told on the page of all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Tokens of a prompt: by category, the largest first, and before, in earlier and in new messages."""

    rows: Sequence[tuple[str, int]]
    front: int
    earlier: int
    new: int


def read_filling(call: Call, reader: CallReader, first: int) -> Filling | None:
    """Return the tokens of a call's prompt by category; messages from number ``first`` on are new.

    None if they are not known, or the request is larger than ``MAX_BYTES``. Raises sqlite3.Error,
    MissingPieceError."""
    if call.request is None or not call.request.is_text:
        return None
    context = read_context_of(call, reader, MAX_BYTES)
    return None if context is None or context.found is None else sum_up(context, first)


def read_context_of(call: Call, reader: CallReader, max_bytes: int) -> Context | None:
    """Return the contents of a call's prompt with their tokens.

    None if its request or its message thread was not kept, or is larger than ``max_bytes``. Raises
    sqlite3.Error, MissingPieceError."""
    if call.request is None or call.request.length > max_bytes:
        return None
    whole = read_whole_request(reader.connection, call.id)
    if whole is None or len(whole.body) > max_bytes or whole.gap is not None:
        return None
    entry = call.entry
    rules = read_own_rules().find(entry.model, datetime.fromisoformat(entry.created_at).date())
    return read_context(whole.body, read_prompt_bill(entry), entry.model, rules)


def sum_up(context: Context, first: int) -> Filling:
    """Return the sums of the tokens of a prompt, in which messages from number ``first`` on are new."""
    rows = [row for row in context.by_category() if row.category != "envelope"]
    least = _LEAST_SHARE * sum(row.tokens for row in rows)
    return Filling(
        rows=[(TITLES[row.category], row.tokens) for row in rows if row.tokens > least][:_MAX_ROWS],
        front=_sum(context, lambda share: share.span.message is None),
        earlier=_sum(context, lambda share: _number(share) in range(1, first)),
        new=_sum(context, lambda share: _number(share) >= first),
    )


def _sum(context: Context, chooses: Callable[[Share], bool]) -> int:
    return sum(share.tokens for share in context.shares if chooses(share))


def _number(share: Share) -> int:
    """Return the number (from 1) of the message that a share belongs to, 0 if it is before the messages."""
    return 0 if share.span.message is None else share.span.message + 1
