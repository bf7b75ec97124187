"""The place of a call in its session: its number, the turns around it, and all turns as a bar chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched
from typing import NamedTuple

from dashboard.addresses import session_address
from dashboard.drawing import find_cut, per_cent
from runtime.safe_text import reveal
from store.traces.calls.call_reader import Call, CallReader
from store.traces.sessions.session_places import Place, list_places, number_turns
from store.traces.sessions.session_reader import Session, SessionReader

HEIGHT = 24
MAX_BARS = 110
_LEAST = 2  # pixels of what costs anything
_GAP = 0.25  # of the place of a bar


class Bar(NamedTuple):
    """A bar of the chart. ``x`` and ``width`` are in per cent, ``y`` and ``height`` in pixels. ``kind`` is
    a CSS class: turns that broke the cache have another colour."""

    kind: str
    x: str
    width: str
    y: int
    height: int


class Turn(NamedTuple):
    """Another call of the session. ``number`` is its number among the turns; None if it failed, or the
    session is too long to be counted."""

    usage_id: int
    number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """The place of a call in its session. ``words`` name it, as ``turn 3``; "" if the session is too long
    to be counted. ``count`` is the number of turns, without failed calls. ``bars`` show the cost of all
    turns, ``mark`` the call below them."""

    session: Session | None
    address: str
    title: str
    words: str = ""
    count: int = 0
    previous: Turn | None = None
    next: Turn | None = None
    most_expensive: Turn | None = None
    most_cents: float | None = None
    bars: Sequence[Bar] = ()
    mark: Bar | None = None


def find_place(call: Call, reader: CallReader) -> SessionPlace | None:
    """Return the place of a call in its session, None if it belongs to none. Raises sqlite3.Error."""
    if call.session is None:
        return None
    sessions = SessionReader(reader.connection)
    session = sessions.find(call.session) if sessions.is_ready else None
    places = list_places(reader.connection, call.session)
    return describe_place(call, session, places or [])


def describe_place(call: Call, session: Session | None, places: Sequence[Place]) -> SessionPlace:
    """Return the place of a call among ``places``: all calls of its session, or none if they are too many."""
    numbers = number_turns(places)
    at = next((at for at, place in enumerate(places) if place.usage_id == call.id), None)
    known = [place for place in places if place.cost_cents]
    most_expensive = max(known, key=lambda place: place.cost_cents or 0.0, default=None)
    return SessionPlace(
        session=session,
        address=session_address(call.session or ""),
        title=reveal((session.title if session else None) or call.session or ""),
        words="" if at is None else _tell_place(places[at], places[:at], numbers),
        count=len(numbers),
        previous=_turn(call.previous_id, numbers),
        next=_turn(call.next_id, numbers),
        most_expensive=_turn(most_expensive.usage_id, numbers) if most_expensive else None,
        most_cents=most_expensive.cost_cents if most_expensive else None,
        bars=draw_bars(places),
        mark=None if at is None else _mark(at, len(places)),
    )


def _tell_place(place: Place, before: Sequence[Place], numbers: dict[int, int]) -> str:
    if not place.is_failed:
        return f"turn {numbers[place.usage_id]}"
    last = max((numbers.get(each.usage_id, 0) for each in before), default=0)
    return f"failed after turn {last}" if last else "failed before turn 1"


def draw_bars(places: Sequence[Place]) -> list[Bar]:
    """Return a bar for each turn, or for each group of turns with their average cost if there are many."""
    if not places:
        return []
    groups = list(batched(places, -(-len(places) // MAX_BARS)))
    costs = [sum(place.cost_cents or 0.0 for place in group) / len(group) for group in groups]
    most = find_cut(costs)
    return [
        Bar(
            "write" if any(place.broke_cache for place in group) else "read",
            per_cent(number / len(groups)),
            per_cent((1 - _GAP) / len(groups)),
            HEIGHT - height,
            height,
        )
        for number, (group, cents) in enumerate(zip(groups, costs, strict=True))
        if (height := _height(cents, most))
    ]


def _height(cents: float, most: float) -> int:
    return max(_LEAST, round(min(cents / most, 1.0) * HEIGHT)) if cents > 0 else 0


def _mark(at: int, count: int) -> Bar:
    width = max(1 / count, 0.01)
    return Bar("fill", per_cent(min(at / count, 1 - width)), per_cent(width), HEIGHT + 1, 2)


def _turn(usage_id: int | None, numbers: dict[int, int]) -> Turn | None:
    return None if usage_id is None else Turn(usage_id, numbers.get(usage_id))
