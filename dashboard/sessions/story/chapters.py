"""The chapters of a session's story: for each prompt its lines, folds, subagents and events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from dashboard.sessions.story.events import Event, make_events, show_notice, tell_going_on
from dashboard.sessions.story.lines import (
    FILE,
    SUBAGENT_TOOLS,
    Line,
    Scale,
    count_lookups,
    make_line,
)
from dashboard.what_was_done import name_object, split_folder, sum_known
from runtime.extension_values import CallNotice
from store.traces.sessions.prompts import Prompt
from store.traces.sessions.steps import Step, sum_cents
from wire.title import CUT

MAX_DEPTH = 3
NO_NOTICES: Mapping[int, Sequence[CallNotice]] = {}
_SHOWN_NAMES = 4
_NEAR = 50  # calls of an agent around one that tell what happened in between

type Notices = Mapping[int, Sequence[CallNotice]]
type Told = Line | Thread | Event
type Item = Told | Fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Successive turns that only look something up, as one line. ``counts`` says how much was looked up,
    ``names`` which files."""

    lines: tuple[Line, ...]
    counts: str
    names: str

    shape: ClassVar = "fold"

    @property
    def verb(self) -> str:
        """Return the verb of the line, such as "Read"."""
        uses = [use for line in self.lines for use in line.step.uses]
        return FILE if any(use.tool == FILE for use in uses) else self.lines[0].deed.verb

    @property
    def steps(self) -> list[Step]:
        """Return the turns."""
        return [line.step for line in self.lines]

    @property
    def cents(self) -> float:
        """Return the cost in US cents."""
        return sum_cents(self.steps)

    @property
    def is_dear(self) -> bool:
        """Return whether one of the turns is much more expensive than usual in the session."""
        return any(line.is_dear for line in self.lines)

    @property
    def result_tokens(self) -> int | None:
        """Return the estimated number of tokens of the tool results, None if unknown."""
        return sum_known(step.result_tokens for step in self.steps)

    @property
    def took_ms(self) -> float:
        """Return the sum of the calls' durations in milliseconds."""
        return sum(step.turn.duration_ms or 0 for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The calls for one prompt or of one subagent, the oldest first."""

    steps: tuple[Step, ...]

    @property
    def opening(self) -> Step:
        """Return the first turn with the text of the prompt or task. It is a failed call or any other if
        there is no such turn."""
        asked = [step for step in self.steps if step.turn.title_text and not step.is_side_call]
        turns = (step for step in asked if not (step.is_failed or step.is_compaction))
        return next(turns, asked[0] if asked else self.steps[0])

    @property
    def turns(self) -> list[Step]:
        """Return the calls that did not fail."""
        return [step for step in self.steps if not step.is_failed]

    @property
    def cents(self) -> float:
        """Return the cost in US cents."""
        return sum_cents(self.steps)

    @property
    def failures(self) -> int:
        """Return the number of failed calls and tool uses."""
        return count_failures(self.steps)

    @property
    def lasted_ms(self) -> float:
        """Return the milliseconds from the first request to the last response."""
        return measure(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread(Stretch):
    """The work of a subagent. ``given_tokens`` is the estimated size of its result. ``steps`` includes the
    calls of its own subagents; ``depth`` is 1 for a subagent of the main agent."""

    agent_id: str
    kind: str
    task: str
    items: tuple[Item, ...]
    depth: int
    given_tokens: int | None

    shape: ClassVar = "thread"

    @property
    def model(self) -> str | None:
        """Return the model of the first call that has one, None if none has."""
        return next((step.turn.model for step in self.steps if step.turn.model), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter(Stretch):
    """A prompt with the work that was done for it. ``number`` counts from 1."""

    number: int
    title: str | None
    items: tuple[Item, ...]

    shape: ClassVar = "chapter"

    @property
    def is_cut(self) -> bool:
        """Return whether ``title`` is only the beginning of the prompt."""
        return self.title is not None and self.title.endswith(CUT)


def count_failures(steps: Iterable[Step]) -> int:
    """Return the number of failed calls and failed tool uses."""
    return sum(step.failures + step.is_failed for step in steps)


def measure(steps: Sequence[Step]) -> float:
    """Return the milliseconds from the first request to the last response."""
    if not steps:
        return 0.0
    lasted = max(step.ended for step in steps) - min(step.started for step in steps)
    return lasted.total_seconds() * 1000


def make_chapters(
    prompts: Sequence[Prompt], scale: Scale, notices: Notices = NO_NOTICES
) -> list[Chapter]:
    """Return a chapter for each prompt. A pause before a prompt is the end of the previous chapter.

    ``notices`` are warnings about calls, by row id."""
    around = _Around(prompts)
    chapters: list[Chapter] = []
    for number, prompt in enumerate(prompts, 1):
        items = _Teller(prompt.steps, scale, around, notices).tell()
        first = items[0] if items else None
        if chapters and isinstance(first, Event) and first.kind == "pause":
            chapters[-1] = replace(chapters[-1], items=(*chapters[-1].items, first))
            items = items[1:]
        chapters.append(
            Chapter(number=number, title=prompt.title, steps=tuple(prompt.steps), items=items)
        )
    return chapters


def fold(items: Iterable[Item], root: str) -> Iterator[Item]:
    """Yield the items, with successive lines that only look something up joined into a ``Fold``."""
    for is_lookup, group in groupby(items, lambda item: isinstance(item, Line) and item.is_lookup):
        found = list(group)
        lines = tuple(item for item in found if isinstance(item, Line))
        if is_lookup and len(lines) > 1:
            uses = [use for line in lines for use in line.step.uses]
            names = [split_folder(name_object(use, root))[1] for use in uses if use.tool == FILE]
            yield Fold(lines=lines, counts=count_lookups(uses), names=_list_names(names))
        else:
            yield from found


def unfold(items: Iterable[Item]) -> Iterator[Told]:
    """Yield the items, with folds replaced by their lines and each subagent followed by its items."""
    for item in items:
        if isinstance(item, Fold):
            yield from item.lines
        else:
            yield item
        if isinstance(item, Thread):
            yield from unfold(item.items)


class _Around:
    """Finds calls of the same agent before and after a call, ``_NEAR`` of each, also of other prompts."""

    def __init__(self, prompts: Iterable[Prompt]) -> None:
        self._steps: dict[str | None, list[Step]] = {}
        self._places: dict[int, int] = {}
        for prompt in prompts:
            for step in prompt.steps:
                own = self._steps.setdefault(step.agent_id, [])
                self._places[step.id] = len(own)
                own.append(step)

    def find(self, step: Step) -> tuple[Sequence[Step], Sequence[Step]]:
        own, place = self._steps[step.agent_id], self._places[step.id]
        return own[max(place - _NEAR, 0) : place], own[place + 1 : place + 1 + _NEAR]


class _Teller:
    """Makes the items of one prompt: lines, folds, subagents and events."""

    def __init__(
        self, steps: Sequence[Step], scale: Scale, around: _Around, notices: Notices
    ) -> None:
        self._scale = scale
        self._notices = notices
        self._around = around
        self._own: dict[str | None, list[Step]] = {None: []}
        for step in steps:
            self._own.setdefault(step.agent_id, []).append(step)
        self._parents = _find_parents(self._own)
        self._given = self._find_given()

    def tell(self) -> tuple[Item, ...]:
        """Return the items of the main agent, with the items of subagents nested in them."""
        return self._tell_agent(None, 0)

    def _tell_agent(self, agent_id: str | None, depth: int) -> tuple[Item, ...]:
        own = self._own[agent_id]
        last = next((s for s in reversed(own) if not (s.is_side_call or s.is_failed)), None)
        placed: list[tuple[Step, list[Item]]] = [
            (step, self._tell_step(step, is_last=step is last)) for step in own
        ]
        placed += [
            (self._own[child][0], [self._tell_thread(child, depth + 1)])
            for child in self._list_children(agent_id)
        ]
        placed.sort(key=lambda each: (each[0].turn.created_at, each[0].id))
        return tuple(fold((item for _, items in placed for item in items), self._scale.root))

    def _tell_step(self, step: Step, *, is_last: bool) -> list[Item]:
        before, after = self._around.find(step)
        events = make_events(step, before, after)
        events[:0] = [show_notice(step, each) for each in self._notices.get(step.id, ())]
        if step.is_failed or step.is_compaction:
            return [*events]
        going_on = tell_going_on(step, after)
        return [*events, make_line(step, self._scale, is_last=is_last, going_on=going_on)]

    def _tell_thread(self, agent_id: str, depth: int) -> Thread:
        own = self._own[agent_id]
        items = self._tell_agent(agent_id, depth)
        inner = [step for item in items if isinstance(item, Thread) for step in item.steps]
        return Thread(
            agent_id=agent_id,
            kind=own[0].agent_type or self._given.get(agent_id, ("Subagent", None))[0],
            task=next((step.turn.title_text for step in own if step.turn.title_text), ""),
            items=items,
            steps=tuple(sorted((*own, *inner), key=lambda step: (step.turn.created_at, step.id))),
            depth=depth,
            given_tokens=self._given.get(agent_id, ("", None))[1],
        )

    def _list_children(self, agent_id: str | None) -> list[str]:
        """Return the ids of the subagents that are shown within an agent."""
        return [child for child, parent in self._parents.items() if parent == agent_id]

    def _find_given(self) -> Mapping[str, tuple[str, int | None]]:
        """Return the type of each subagent and the size of its result in tokens, by agent id.

        They are taken from the tool use that started it. A use is matched with the first subagent that
        began after it."""
        given: dict[str, tuple[str, int | None]] = {}
        for parent, steps in self._own.items():
            children = self._list_children(parent)
            for step in steps:
                for use in step.uses:
                    if use.tool not in SUBAGENT_TOOLS:
                        continue
                    begun = (
                        each for each in children if self._own[each][0].started >= step.started
                    )
                    if (child := next(begun, None)) is not None:
                        children.remove(child)
                        given[child] = (use.target or "Subagent", use.result_tokens)
        return given


def _find_parents(own: Mapping[str | None, Sequence[Step]]) -> dict[str, str | None]:
    """Return the agent within which each subagent is shown, so that none is deeper than ``MAX_DEPTH``.

    A subagent whose parent has no calls here, or is its own descendant, is shown in the main agent
    (None)."""
    named = {
        agent_id: next((s.turn.parent_agent_id for s in steps if s.turn.parent_agent_id), None)
        for agent_id, steps in own.items()
        if agent_id is not None
    }
    parents: dict[str, str | None] = {}
    for agent_id in named:
        line: list[str] = []
        above = named[agent_id]
        while above in named and above not in line and above != agent_id:
            line.append(above)
            above = named[above]
        is_circle = above is not None and above in named
        place = max(len(line) - MAX_DEPTH + 1, 0)
        parents[agent_id] = None if is_circle or not line else line[place:][0]
    return parents


def _list_names(names: Iterable[str]) -> str:
    """Return the first distinct names, and the number of the others, as text."""
    distinct = list(dict.fromkeys(filter(None, names)))
    shown = ", ".join(distinct[:_SHOWN_NAMES])
    more = len(distinct) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
