"""The comparison of two calls: requests in the order of the prompt cache, responses, and costs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboard.call.addresses import body_address
from dashboard.call.lookup import GAPS
from dashboard.call.response import MessageResponse, parse_response
from dashboard.compare.alignment import Effort
from dashboard.compare.differences import MAX_SHOWN, Difference, compare_lists
from dashboard.compare.figures import BillRow, Row, list_bill, list_figures, list_headers
from dashboard.compare.parts import RequestParts, take_apart
from metering.formats import UNKNOWN, format_count
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import BodySize, Call, CallReader, Side
from store.traces.calls.threads import read_whole_request
from wire.request import Request

MAX_BODY_BYTES = 24 << 20
MAX_RESPONSE_CHARS = 100_000
MAX_VALUE_CHARS = 600
_TOO_LONG = "The requests of these calls are not compared: it took too long."
_LEVELS = (
    ("tools", "Tools", ("tool", "tools")),
    ("system", "System prompt", ("block", "blocks")),
    ("messages", "Messages", ("message", "messages")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A level of the prompt (tools, system, messages). ``summary`` has the numbers of changed, added,
    removed and equal items."""

    anchor: str
    title: str
    differences: tuple[Difference, ...]
    left_out: int
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two calls. ``missing`` has a sentence for each body that cannot be compared;
    ``sections`` is empty if a request is among them. ``first`` names the first item that differs, "" if
    none does; ``markers`` are the places of the cache breakpoints in both requests."""

    settings: tuple[Row, ...]
    equal_settings: int
    sections: tuple[Section, ...]
    markers: tuple[tuple[str, ...], tuple[str, ...]]
    first: str
    figures: tuple[Row, ...]
    bill: tuple[BillRow, ...]
    responses: tuple[MessageResponse | None, MessageResponse | None]
    missing: tuple[str, ...]


def compare_calls(
    old: Call, new: Call, reader: CallReader, *, is_plain: bool = False
) -> Comparison:
    """Return the comparison of two calls. Raises sqlite3.Error.

    ``is_plain``: requests are not compared, since that took too long before, and responses have no
    colours."""
    missing: list[str] = [_TOO_LONG] if is_plain else []
    requests = [None if is_plain else _read_request(call, reader, missing) for call in (old, new)]
    responses = [_read_response(call, reader, missing, is_plain) for call in (old, new)]
    before, after = requests
    sections: tuple[Section, ...] = ()
    markers: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
    rows = [_compare_value(*each) for each in list_headers(old.entry, new.entry)]
    if before is not None and after is not None:
        sections = tuple(_compare_levels(before, after, Effort()))
        markers = before.markers, after.markers
        names = dict.fromkeys([*before.settings, *after.settings])
        rows += [_compare_value(n, before.settings.get(n), after.settings.get(n)) for n in names]
    return Comparison(
        settings=tuple(row for row in rows if row.differs),
        equal_settings=sum(not row.differs for row in rows),
        sections=sections,
        markers=markers,
        first=_find_first(sections),
        figures=tuple(list_figures(old.entry, new.entry)),
        bill=list_bill(old.entry, new.entry),
        responses=(responses[0], responses[1]),
        missing=tuple(missing),
    )


def _compare_levels(old: RequestParts, new: RequestParts, effort: Effort) -> Iterable[Section]:
    for name, title, nouns in _LEVELS:
        found = compare_lists(
            getattr(old, name), getattr(new, name), nouns, effort, by_name=name == "tools"
        )
        yield Section(
            anchor=name,
            title=title,
            differences=found[:MAX_SHOWN],
            left_out=len(found[MAX_SHOWN:]),
            summary=_summarize(found),
        )


def _summarize(differences: Sequence[Difference]) -> str:
    counts = Counter[str]()
    for each in differences:
        counts[each.kind] += each.count
    words = {"reordered": "with keys in another order"}
    kinds = ("changed", "added", "removed", "moved", "reordered", "equal")
    parts = [
        f"{format_count(counts[kind])} {words.get(kind, kind)}" for kind in kinds if counts[kind]
    ]
    return ", ".join(parts) or "none"


def _find_first(sections: Sequence[Section]) -> str:
    for section in sections:
        for each in section.differences:
            if each.kind != "equal":
                return each.name
    return ""


def _compare_value(name: str, old: str | None, new: str | None) -> Row:
    is_secret = name.endswith("authorization_token")
    before, after = (
        UNKNOWN if value is None else "(not shown)" if is_secret else _cut(value)
        for value in (old, new)
    )
    if old != new and before == after:  # they differ beyond what is shown
        after += " (differs)"
    return Row(label=name, before=before, after=after)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def _read_request(call: Call, reader: CallReader, missing: list[str]) -> RequestParts | None:
    body = _read_body(call, "request", call.request, reader, missing)
    if body is None:
        return None
    request = Request.parse(body)
    if request is None:
        missing.append(f"The request of call {call.id} is not a JSON object.")
        return None
    return take_apart(request)


def _read_response(
    call: Call, reader: CallReader, missing: list[str], is_plain: bool
) -> MessageResponse | None:
    body = _read_body(call, "response", call.response, reader, missing)
    if body is None:
        return None
    address = body_address(call.id, "response")
    response = parse_response(body, MAX_RESPONSE_CHARS, address=address, is_plain=is_plain)
    if response is None:
        missing.append(f"The response of call {call.id} is not a message: open the call to see it.")
    return response


def _read_body(
    call: Call, side: Side, size: BodySize | None, reader: CallReader, missing: list[str]
) -> bytes | None:
    """Return a body that can be compared; if None, a sentence in ``missing`` gives the reason."""
    if size is None:
        missing.append(
            f"The {side} of call {call.id} was not kept: its endpoint records metadata only,"
            " retention has removed it, or there was none."
        )
        return None
    if not size.is_text or size.length > MAX_BODY_BYTES:
        missing.append(f"The {side} of call {call.id} is too large, or not text.")
        return None
    try:
        if side == "response":
            return reader.read_body(call.id, side, size.length)
        whole = read_whole_request(reader.connection, call.id)
    except MissingPieceError:  # retention took it meanwhile
        missing.append(f"The {side} of call {call.id} has just been removed by retention.")
        return None
    if whole is not None and whole.gap is not None:
        missing.append(f"The request of call {call.id} has only what it sent: {GAPS[whole.gap]}")
    return None if whole is None else whole.body
