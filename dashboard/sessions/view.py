"""The page of a session: its story with addresses, sums and texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from dashboard.addresses import call_address, session_address
from dashboard.call.fact import calls_address
from dashboard.formats import shorten_model
from dashboard.paid_parts import PaidFor, list_paid_for
from dashboard.sessions.story.chapters import Chapter, count_failures, unfold
from dashboard.sessions.story.events import Event, Run
from dashboard.sessions.story.lines import Line
from dashboard.sessions.story.map import Map, make_map
from dashboard.sessions.story.story import Story
from dashboard.sessions.story.summary import (
    AgentSum,
    list_agents,
    make_lede,
    split_cost,
)
from dashboard.sessions.story.uses import TargetSum, ToolSum, list_targets, list_tools
from metering.credential_names import name_credential
from store.traces.annotations import Annotations
from store.traces.sessions import unnamed_sessions
from store.traces.sessions.session_figures import SessionFigures, ToolCost
from store.traces.sessions.session_reader import Session
from store.traces.sessions.steps import Step

MOST_AGENTS, MOST_PROMPTS = 12, 20  # beside the story
# The kind, one and several in words, and the key that goes to the next.
_JUMPS = (
    ("fail", "failed", "failed", "n"),
    ("warning", "warning", "warnings", ""),
    ("break", "cache break", "cache breaks", "b"),
    ("compact", "compaction", "compactions", ""),
    ("thread", "subagent", "subagents", ""),
)
_LABEL_CHARS = 80  # of what a bar of the map did


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A link to the first of the lines of one kind. ``key`` is the keyboard key that goes to the next
    line, "" for none."""

    kind: str
    count: int
    words: str
    address: str
    key: str


class Row(NamedTuple):
    """A call in the table of calls, with what it did. ``is_failed``: the call or one of its tool uses
    failed."""

    step: Step
    verb: str
    words: str
    is_failed: bool


@dataclass(frozen=True, kw_only=True)
class View:
    """One page of the story of a session. ``page`` counts from 1. ``names`` maps fingerprints of
    credentials to names."""

    session: Session
    story: Story
    page: int
    annotations: Annotations
    figures: SessionFigures
    tool_costs: Sequence[ToolCost]
    names: Mapping[str, str]

    @cached_property
    def address(self) -> str:
        """Return the address of the session's page."""
        return session_address(self.session.session_id)

    @cached_property
    def sql_address(self) -> str:
        """Return the address of the SQL page below ``/traces`` that lists the calls of the session."""
        return list_address(self.session.session_id)

    @property
    def is_imported(self) -> bool:
        """Return whether the session has imported calls, for which it is unknown who paid."""
        return any(step.turn.usage_source == "imported" for step in self.story.steps)

    @property
    def pages(self) -> int:
        """Return the number of pages of the story."""
        return len(self.story.pages)

    @property
    def chapters(self) -> Sequence[Chapter]:
        """Return the chapters on this page."""
        return self.story.pages[self.page - 1] if self.story.pages else ()

    @cached_property
    def tools(self) -> list[ToolSum]:
        """Return the tools that were used."""
        return list_tools(self.story.steps)

    @cached_property
    def costs_of_tools(self) -> dict[tuple[str, str], ToolCost]:
        """Return the costs of tools, by server and name."""
        return {(each.server, each.tool): each for each in self.tool_costs}

    @property
    def unused_tools(self) -> list[ToolCost]:
        """Return the tools that were defined and never used. Nameless ones are left out, since these stand
        for unknown tools."""
        used = {(each.server, each.tool) for each in self.tools}
        named = (each for each in self.tool_costs if each.tool)
        return [each for each in named if (each.server, each.tool) not in used]

    @cached_property
    def targets(self) -> list[TargetSum]:
        """Return the targets of tool uses with the largest results, the largest first."""
        return list_targets(self.story.steps, self.story.root)

    @property
    def rows(self) -> list[Row]:
        """Return the calls of this page, in the order of time."""
        told = (item for chapter in self.chapters for item in unfold(chapter.items))
        lines = [item for item in told if isinstance(item, Line)]
        deeds = {line.step.id: (line.deed.verb, line.words) for line in lines}
        deeds |= {
            event.step.id: ("Compaction", "") if event.number else ("", event.runs[0].text)
            for event in self.story.events
            if event.number is not None or event.kind == "fail"
        }
        steps = [step for chapter in self.chapters for step in chapter.steps]
        steps.sort(key=lambda step: (step.turn.created_at, step.id))
        failed = {line.step.id for line in lines if line.is_failed}
        return [
            Row(
                step,
                *deeds.get(step.id, ("", "")),
                is_failed=step.is_failed or step.id in failed,
            )
            for step in steps
        ]

    @cached_property
    def map(self) -> Map:
        """Return the map (bar chart) of all turns."""
        return make_map(self.story, self._label_turns())

    def _label_turns(self) -> dict[int, str]:
        """Return a short description of each turn, by row id."""
        labels = {
            line.step.id: _shorten(f"{line.deed.verb} {line.words}") for line in self.story.lines
        }
        for event in self.story.events:
            if event.number is not None:
                labels[event.step.id] = "Compaction"
        return labels

    @cached_property
    def lede(self) -> list[Run]:
        """Return the sentences at the beginning."""
        return make_lede(self.session, self.story)

    @cached_property
    def paid_for(self) -> list[PaidFor]:
        """Return the parts of the cost (classes of tokens, web searches) with their places in a bar."""
        return list_paid_for(split_cost(self.story.steps))

    @cached_property
    def _agents(self) -> list[AgentSum]:
        return list_agents(self.story)

    @property
    def agents(self) -> list[AgentSum]:
        """Return the first ``MOST_AGENTS`` agents."""
        return self._agents[:MOST_AGENTS]

    @property
    def more_agents(self) -> int:
        """Return how many agents are left out of ``agents``."""
        return max(len(self._agents) - MOST_AGENTS, 0)

    @property
    def main_chapters(self) -> list[Chapter]:
        """Return the ``MOST_PROMPTS`` most expensive prompts in their order, listed beside the story."""
        dearest = sorted(self.story.chapters, key=lambda each: -each.cents)[:MOST_PROMPTS]
        return sorted(dearest, key=lambda each: each.number)

    @property
    def prompts_heading(self) -> str:
        """Return the heading of the list of prompts."""
        count = len(self.story.chapters)
        return "Prompts" if count <= MOST_PROMPTS else f"{MOST_PROMPTS} of {count} prompts"

    @property
    def waited_ms(self) -> float:
        """Return the sum of the calls' durations in milliseconds."""
        return sum(step.turn.duration_ms or 0 for step in self.story.steps)

    @property
    def last_id(self) -> int:
        """Return the highest row id of the session's calls, 0 without calls."""
        return max((step.id for step in self.story.steps), default=0)

    @property
    def facts(self) -> list[str]:
        """Return credential, client and models (the most expensive first) as texts, without unknown ones."""
        cents: dict[str, float] = {}
        for step in self.story.steps:
            if step.turn.model:
                cents[step.turn.model] = cents.get(step.turn.model, 0.0) + step.cents
        models = sorted(cents, key=lambda model: -cents[model])
        return [
            words
            for words in (
                name_credential(self.session.credential_hmac, self.names),
                self.session.client or "",
                ", ".join(map(self.shorten, models)),
            )
            if words
        ]

    @property
    def attribution(self) -> list[tuple[str, str]]:
        """Return the user and the project of the session as (tag name, value), without unknown ones."""
        known = (("user", self.figures.user), ("project", self.figures.project))
        return [(name, value) for name, value in known if value]

    @property
    def jumps(self) -> list[Jump]:
        """Return links to the first failure, warning, cache break, compaction and subagent, if any."""
        story = self.story
        places: dict[str, list[str]] = {}
        for event in story.events:
            places.setdefault(event.kind, []).append(self.event_place(event))
        failed = [self.turn_address(line.step) for line in story.lines if line.is_failed]
        places["fail"] = failed or places.get("fail", [])
        if story.threads:
            first = self._find_place(story.threads[0].steps[0], "agent-1")
            places["thread"] = [first] * len(story.threads)
        counts = {kind: len(found) for kind, found in places.items()}
        counts["fail"] = count_failures(story.steps)
        return [
            Jump(
                kind=kind,
                count=counts[kind],
                words=one if counts[kind] == 1 else many,
                key=key,
                address=places[kind][0],
            )
            for kind, one, many, key in _JUMPS
            if places.get(kind)
        ]

    @cached_property
    def _threads(self) -> dict[str, int]:
        return {thread.agent_id: n for n, thread in enumerate(self.story.threads, 1)}

    @cached_property
    def _page_of(self) -> dict[int, int]:
        return {
            step.id: number
            for number, chapters in enumerate(self.story.pages, 1)
            for chapter in chapters
            for step in chapter.steps
        }

    def find_thread(self, agent_id: str) -> int:
        """Return the number of a subagent, from 1."""
        return self._threads[agent_id]

    def call_address(self, step: Step) -> str:
        """Return the address of the page of a call."""
        return call_address(step.id)

    def part_address(self, step: Step) -> str:
        """Return the address of the part with the message that a call answers."""
        return f"{self.address}/turns/{step.id}?parts=asked"

    def event_address(self, event: Event) -> str:
        """Return the address of the page that an event links to."""
        return event.address or call_address(event.step.id)

    def event_place(self, event: Event) -> str:
        """Return the address of the line of an event within the story."""
        return self._find_place(event.step, f"{event.kind}-{event.step.id}")

    def turn_address(self, step: Step) -> str:
        """Return the address of the line of a turn within the story."""
        if step.is_compaction:
            return self._find_place(step, f"compact-{step.id}")
        return self._find_place(step, f"t{step.number}")

    def chapter_address(self, chapter: Chapter) -> str:
        """Return the address of a prompt within the story."""
        return self._find_place(chapter.steps[0], f"p{chapter.number}")

    def agent_address(self, agent: AgentSum) -> str:
        """Return the address of an agent's work within the story."""
        if not agent.thread:
            return self.chapter_address(self.story.chapters[0])
        thread = self.story.threads[agent.thread - 1]
        return self._find_place(thread.steps[0], f"agent-{agent.thread}")

    def page_address(self, number: int) -> str:
        """Return the address of a page of the story."""
        return self.address if number == 1 else f"{self.address}?page={number}"

    def rows_address(self, ending: str) -> str:
        """Return the address to download the calls as rows, in the format ``ending``, such as ``csv``."""
        path, _, query = self.sql_address.partition("?")
        stream = "&_stream=1" if ending == "csv" else ""
        return f"{path}.{ending}?{query}{stream}"

    @staticmethod
    def shorten(model: str) -> str:
        """Return the name of a model without "claude-" and its date."""
        return shorten_model(model)

    def _find_place(self, step: Step, anchor: str) -> str:
        number = self._page_of.get(step.id, self.page)
        return f"#{anchor}" if number == self.page else f"{self.page_address(number)}#{anchor}"


def describe_tabs(
    session: Session, figures: SessionFigures, annotations: Annotations
) -> dict[str, Any]:
    """Return the template variables that all tabs of a session need."""
    return {
        "session": session,
        "figures": figures,
        "annotations": annotations,
        "address": session_address(session.session_id),
        "sql_address": list_address(session.session_id),
    }


def list_address(session_id: str) -> str:
    """Return the address of the SQL page below ``/traces`` that lists the calls of a session."""
    first_id = unnamed_sessions.parse_first_id(session_id)
    if first_id is None:
        return calls_address("session_id", session_id)
    through = {"table": "unnamed_calls", "column": "first_id", "value": str(first_id)}
    return calls_address("_through", orjson.dumps(through).decode())


def _shorten(words: str) -> str:
    return f"{words[: _LABEL_CHARS - 1].rstrip()}…" if len(words) > _LABEL_CHARS else words
