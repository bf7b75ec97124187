"""The story of a session: pages of chapters, and values for the whole session."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dashboard.sessions.story.causes import Amounts, Cause, explain_steps, list_causes
from dashboard.sessions.story.chapters import (
    NO_NOTICES,
    Chapter,
    Notices,
    Thread,
    Told,
    make_chapters,
    unfold,
)
from dashboard.sessions.story.events import Event
from dashboard.sessions.story.lines import Line, make_scale
from store.traces.sessions.deeds import Deeds
from store.traces.sessions.prompts import Prompt, cut_prompts
from store.traces.sessions.session_reader import Turn
from store.traces.sessions.steps import Step, make_steps, sum_cents

PAGE_TURNS = 500
_CHAT_PROMPTS = 3  # from so many on, prompts of one turn each are a list


@dataclass(frozen=True, kw_only=True)
class Story:
    """The story of a session. ``is_list``: each prompt has one response and no tools, so the chapters are
    shown as a list. ``steps`` are all calls that were read, ``before`` is the number of earlier ones
    that were not, ``root`` the folder that paths are relative to."""

    steps: tuple[Step, ...]
    chapters: tuple[Chapter, ...]
    pages: tuple[tuple[Chapter, ...], ...]
    is_list: bool
    before: int
    root: str

    @cached_property
    def turns(self) -> list[Step]:
        """Return the calls that did not fail."""
        return [step for step in self.steps if step.number is not None]

    @cached_property
    def amounts(self) -> dict[int, Amounts]:
        """Return the cost of each call by reason in US cents, by row id."""
        return explain_steps(self.steps)

    def find_causes(self, chapter: Chapter) -> list[Cause]:
        """Return the main reasons why a prompt was expensive. None are returned if it cost less than the
        average prompt."""
        if len(self.chapters) < 2 or chapter.cents * len(self.chapters) < sum_cents(self.steps):
            return []
        found = list_causes(chapter.steps, self.amounts, agents_apart=True)
        causes = [each for each in found if each.cents]
        return causes[: 1 if causes and causes[0].cents > chapter.cents / 2 else 2]

    @cached_property
    def _told(self) -> list[Told]:
        return [item for chapter in self.chapters for item in unfold(chapter.items)]

    @cached_property
    def lines(self) -> list[Line]:
        """Return the lines of all turns, including those of subagents."""
        return [item for item in self._told if isinstance(item, Line)]

    @cached_property
    def threads(self) -> list[Thread]:
        """Return the subagents in the order in which they began, each before its own subagents."""
        return [item for item in self._told if isinstance(item, Thread)]

    @cached_property
    def events(self) -> list[Event]:
        """Return all events, including those of subagents."""
        return [item for item in self._told if isinstance(item, Event)]


def tell_story(
    turns: Sequence[Turn], deeds: Deeds, before: int = 0, notices: Notices = NO_NOTICES
) -> Story:
    """Return the story of turns, which are oldest first. ``before`` is the number of earlier turns left
    out.

    ``notices`` are warnings about calls, by row id."""
    steps = make_steps(turns, deeds, before + 1)
    prompts = cut_prompts(steps)
    scale = make_scale(steps)
    chapters = make_chapters(prompts, scale, notices)
    return Story(
        steps=tuple(steps),
        chapters=tuple(chapters),
        pages=tuple(_cut_pages(chapters)),
        is_list=_is_chat(prompts),
        before=before,
        root=scale.root,
    )


def _is_chat(prompts: Sequence[Prompt]) -> bool:
    return len(prompts) >= _CHAT_PROMPTS and all(
        sum(not step.is_failed for step in prompt.steps) <= 1
        and not any(step.uses or step.agent_id for step in prompt.steps)
        for prompt in prompts
    )


def _cut_pages(chapters: Sequence[Chapter]) -> list[tuple[Chapter, ...]]:
    """Return the chapters in pages of about ``PAGE_TURNS`` turns. Chapters are not split, so a page may
    have more."""
    pages: list[tuple[Chapter, ...]] = []
    page: list[Chapter] = []
    for chapter in chapters:
        if page and sum(len(each.steps) for each in (*page, chapter)) > PAGE_TURNS:
            pages.append(tuple(page))
            page = []
        page.append(chapter)
    return [*pages, tuple(page)] if page else pages
