"""The head of a call's page and the column beside it, which all its tabs have."""

from dataclasses import dataclass
from typing import NamedTuple

from dashboard.cache_breaks import Broken, open_break
from dashboard.call.bill import Bill, make_bill
from dashboard.call.failure import Failure, describe_cut, describe_failure, describe_shortly
from dashboard.call.filling import Filling, read_filling
from dashboard.call.retries import Retries, find_retries
from dashboard.call.session_place import SessionPlace, find_place
from dashboard.call.views import View, open_new, open_response
from dashboard.what_was_done import Deed, describe_deed, find_root
from metering.entry import UsageLogEntry
from metering.tool_uses import read_said_text, read_tool_uses
from store.traces.calls.call_reader import Call, CallReader
from store.traces.calls.tool_uses import StoredUse, read_uses_of
from store.traces.sessions.session_places import list_targets
from wire.block import list_blocks


class Headline(NamedTuple):
    """The headline of a call: a verb and words, which are in quotation marks if ``is_quoted``. If it is
    not known what the call did, ``verb`` is its title or its model."""

    verb: str
    words: str = ""
    is_quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of all tabs of a call's page. ``retries`` are those of a failed call, ``uses`` the tool
    uses in the response, ``deed`` what the response did in words, ``cut`` a sentence if the client left."""

    headline: Headline
    deed: Deed | None
    uses: tuple[StoredUse, ...]
    failure: Failure | None
    cut: str
    retries: Retries | None
    broken: Broken | None
    bill: Bill
    place: SessionPlace | None
    filling: Filling | None
    new: View
    response: View

    @property
    def result_tokens(self) -> int:
        """Return the estimated number of tokens in the results of the call's tool uses, as far as known."""
        return sum(use.result_tokens or 0 for use in self.uses)


def open_head(call: Call, reader: CallReader, *, is_plain: bool) -> Head:
    """Return the head of a call's page. ``is_plain``: texts without Markdown, colours and differences.

    Raises sqlite3.Error, MissingPieceError."""
    response = open_response(call, reader, is_plain=is_plain)
    new = open_new(call, reader, is_plain=is_plain)
    failure = describe_failure(
        call.entry, None if response.response is None else response.response.error
    )
    uses, deed = _find_deed(call, response, reader)
    return Head(
        headline=_make_headline(call.entry, deed, failure),
        deed=deed,
        uses=tuple(uses),
        failure=failure,
        cut=describe_cut(call.entry),
        retries=find_retries(call, reader) if failure else None,
        broken=open_break(call),
        bill=make_bill(call.entry),
        place=find_place(call, reader),
        filling=read_filling(call, reader, new.latest.first if new.latest else 1),
        new=new,
        response=response,
    )


def _make_headline(entry: UsageLogEntry, deed: Deed | None, failure: Failure | None) -> Headline:
    if deed is not None:
        return Headline(deed.verb, deed.words or deed.says, not deed.words)
    if failure is not None:
        return Headline("Failed", describe_shortly(entry))
    return Headline(entry.title_text or entry.model or entry.request_model or "Unknown model")


def _find_deed(
    call: Call, response: View, reader: CallReader
) -> tuple[list[StoredUse], Deed | None]:
    """Return the tool uses in a response, and in words what the response did.

    If the recorder has not stored the uses (for older calls), they are read from the response."""
    uses = read_uses_of(reader.connection, [call.id]).get(call.id, [])
    blocks = [] if response.response is None else list_blocks(response.response.content)
    if not uses:
        uses = [
            StoredUse(
                tool=use.tool, server=use.server, target=use.target, plus=use.plus, minus=use.minus
            )
            for use in read_tool_uses(blocks)
        ]
    targets = list_targets(reader.connection, call.session) if call.session and uses else []
    root = find_root([*targets, *(use.target for use in uses)])
    said = read_said_text(blocks)
    return uses, describe_deed(uses, said, stop_reason=call.entry.stop_reason, root=root)
