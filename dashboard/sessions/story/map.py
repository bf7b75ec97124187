"""The map of a session: a bar chart with a bar for each turn, or for several turns if there are many.

Horizontal places are in per cent of the width, heights in pixels from the top.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from dashboard.drawing import Part, find_cut, stack
from dashboard.sessions.story.chapters import Thread
from dashboard.sessions.story.events import Event
from dashboard.sessions.story.story import Story
from dashboard.sessions.story.summary import split_cost
from metering.formats import format_short_tokens, format_some_cost
from store.traces.sessions.steps import Step, sum_cents

MAX_BARS = 240
TOP, GROUND = 16.0, 78.0
_SMALLEST = 0.8  # pixels of what cost something
_VALUE_ROOM = 3.5  # per cent of the width that a value takes
_MARK_ROOM, _MARK_ROOM_OF_PHONES = 2.0, 7.0  # the same of the number of a prompt
_CROSS_ROOM, _CROSS_PIXELS = 0.5, 7  # half of a cross in per cent of the width, all of it in pixels
_LAST_PLACES = 97  # per cent of the width from which on there is more room to the left
_GAP = 0.08  # of a bar's place, on each side


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The bar of some turns: its parts, each with the CSS class of its colour. ``value`` is the cost as
    text if the bar is cut off at the top, otherwise ""."""

    steps: tuple[Step, ...]
    x: float
    width: float
    parts: Sequence[tuple[str, Part]]
    label: str
    value: str
    has_failure: bool
    has_break: bool
    has_compaction: bool

    @property
    def number(self) -> int:
        """Return the number of the first turn."""
        return self.steps[0].number or 0

    @property
    def middle(self) -> float:
        """Return the horizontal middle of the bar in per cent."""
        return self.x + self.width / 2

    @property
    def columns(self) -> Markup:
        """Return the clickable area and the parts of the bar as SVG.

        Making them in a template would take a third of the time of the page."""
        room = (
            f'x="{self.x:.2f}%" width="{self.width:.2f}%" y="{TOP:.0f}" height="{GROUND - TOP:.0f}"'
        )
        x, width = self.x + self.width * _GAP, self.width * (1 - 2 * _GAP)
        parts = "".join(
            f'<rect class="{style}" x="{x:.2f}%" width="{width:.2f}%" y="{part.y}"'
            f' height="{part.height}"/>'
            for style, part in self.parts
        )
        return Markup(f'<rect class="hit" {room}/>{parts}')  # noqa: S704 - numbers, and names of ours


@dataclass(frozen=True, slots=True)
class Stretch:
    """A horizontal line below the bars of a subagent, in per cent."""

    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    """The place where a prompt begins. Its number is on the left if ``is_left``, is left out on narrow
    screens if ``may_go``, and always if ``is_bare``, since a value is at that place."""

    number: int
    x: float
    is_left: bool
    may_go: bool = False
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Cross:
    """A failed call, which is not a turn. ``x`` is where the next turn begins, and ``shift`` moves several
    crosses at one place apart, in pixels."""

    event: Event
    x: float
    shift: int


@dataclass(frozen=True, slots=True)
class Value:
    """The cost above a bar that is cut off."""

    x: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """The map. ``turns`` is the number of turns, ``first`` the number of the first one."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    crosses: tuple[Cross, ...]
    stretches: tuple[Stretch, ...]
    values: tuple[Value, ...]
    turns: int
    first: int


def make_map(story: Story, labels: dict[int, str]) -> Map:
    """Return the map of a story. ``labels`` has a short description of each turn, by row id."""
    steps = story.turns
    size = -(-len(steps) // MAX_BARS) or 1
    groups = [tuple(steps[start : start + size]) for start in range(0, len(steps), size)]
    costs = [sum_cents(group) for group in groups]
    most = find_cut(costs)
    width = 100 / (len(groups) or 1)
    compacted = {event.step.id for event in story.events if event.kind == "compact"}
    place = {step.id: place for place, step in enumerate(steps)}
    bars = tuple(
        _make_bar(group, index * width, width, most, labels, compacted)
        for index, group in enumerate(groups)
    )
    values = _list_values(bars)
    return Map(
        bars=bars,
        marks=_mark_prompts(story, place, width / size, values),
        crosses=_cross_failed_calls(story, place, width / size),
        stretches=tuple(_stretch(each, place, width / size) for each in story.threads),
        values=values,
        turns=len(steps),
        first=steps[0].number or 1 if steps else 1,
    )


def _make_bar(
    group: tuple[Step, ...],
    x: float,
    width: float,
    most: float,
    labels: dict[int, str],
    compacted: Collection[int],
) -> Bar:
    cents, sums = sum_cents(group), split_cost(group)
    styles = [part.style for part in sums]
    room = GROUND - TOP
    parts = stack(
        sums.values(), max(most, cents), foot=GROUND, height=room, least=_SMALLEST, seam=0.0
    )
    is_cut = cents > most
    return Bar(
        steps=group,
        x=x,
        width=width,
        parts=[(styles[part.kind], part) for part in parts],
        label=_label(group, labels),
        value=format_some_cost(cents) if is_cut else "",
        has_failure=any(step.failures for step in group),
        has_break=any(step.turn.cache_break is not None for step in group),
        has_compaction=any(step.id in compacted for step in group),
    )


def _label(group: tuple[Step, ...], labels: dict[int, str]) -> str:
    first, last = group[0], group[-1]
    name = f"Turn {first.number}" if first is last else f"Turns {first.number} to {last.number}"
    said = labels.get(first.id, "") if first is last else ""
    cents = format_some_cost(sum_cents(group))
    context = format_short_tokens(max(step.turn.tokens.prompt or 0 for step in group))
    return " · ".join(filter(None, (name, said, cents, f"context {context}")))


def _mark_prompts(
    story: Story, place: dict[int, int], width: float, values: Sequence[Value]
) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for chapter in story.chapters:
        first = next((step for step in chapter.steps if step.id in place), None)
        if first is None:
            continue
        x = place[first.id] * width
        marks.append(Mark(chapter.number, x, is_left=x > _LAST_PLACES))
    kept = _thin(marks, _MARK_ROOM)
    on_phones = {mark.number for mark in _thin(kept, _MARK_ROOM_OF_PHONES)}
    return tuple(
        replace(
            mark,
            may_go=mark.number not in on_phones,
            is_bare=any(-_MARK_ROOM < value.x - mark.x < _VALUE_ROOM for value in values),
        )
        for mark in kept
    )


def _cross_failed_calls(story: Story, place: dict[int, int], width: float) -> tuple[Cross, ...]:
    """Return a cross for each failed call, between the turns before and after it."""
    events = {event.step.id: event for event in story.events if event.kind == "fail"}
    crosses: list[Cross] = []
    turns = 0
    for step in story.steps:
        if step.id in place:
            turns = place[step.id] + 1
        elif (event := events.get(step.id)) is not None:
            x = min(max(turns * width, _CROSS_ROOM), 100 - _CROSS_ROOM)
            before = crosses[-1].shift if crosses and crosses[-1].x == x else None
            apart = -_CROSS_PIXELS if x > _LAST_PLACES else _CROSS_PIXELS
            shift = 0 if before is None else before + apart
            crosses.append(Cross(event, x, shift))
    return tuple(crosses)


def _list_values(bars: Sequence[Bar]) -> tuple[Value, ...]:
    """Return the values above bars that are cut off, except those without room beside the one before."""
    values: list[Value] = []
    for bar in bars:
        x = min(max(bar.middle, _VALUE_ROOM / 2), 100 - _VALUE_ROOM / 2)
        if bar.value and (not values or x - values[-1].x >= _VALUE_ROOM):
            values.append(Value(x, bar.value))
    return tuple(values)


def _thin(marks: Sequence[Mark], room: float) -> list[Mark]:
    """Return the marks whose numbers do not overlap, at least ``room`` per cent apart."""
    kept: list[Mark] = []
    for mark in marks:
        if not kept or mark.x - kept[-1].x >= room:
            kept.append(mark)
    return kept


def _stretch(thread: Thread, place: dict[int, int], width: float) -> Stretch:
    places = [place[step.id] for step in thread.steps if step.id in place]
    if not places:
        return Stretch(0.0, 0.0)
    return Stretch(min(places) * width, (max(places) - min(places) + 1) * width)
