"""The parts of a session as a file has them: its story without folds, one after the other."""

from dataclasses import dataclass, replace

from dashboard.sessions.story.chapters import Chapter, Thread, Told, unfold
from dashboard.sessions.story.events import Event, Run
from dashboard.sessions.story.lines import Line
from dashboard.sessions.view import View
from metering.request_facts import keep_plain_name
from store.traces.sessions.steps import Step

type Part = Chapter | Told

_BROKE = "The cache broke. "


@dataclass(frozen=True, kw_only=True)
class FileView(View):
    """A session for a file: all of it is on one page, and nothing leads to the service.

    Without bodies it has no words of requests and responses, and no names of what tools were used upon."""

    with_bodies: bool

    @property
    def parts(self) -> list[Part]:
        """Return the parts in the order of the story."""
        found = [
            part for chapter in self.story.chapters for part in (chapter, *unfold(chapter.items))
        ]
        return found if self.with_bodies else [_without_words(part) for part in found]

    def call_address(self, step: Step) -> str:
        """Return no address: there is no service."""
        return ""

    def event_address(self, event: Event) -> str:
        """Return no address: there is no service."""
        return ""

    @staticmethod
    def shorten(model: str) -> str:
        """Return the whole name: a file is read where nobody knows which models there were."""
        return model

    def _label_turns(self) -> dict[int, str]:
        return super()._label_turns() if self.with_bodies else {}

    def _find_place(self, step: Step, anchor: str) -> str:
        return f"#{anchor}"


def find_call(part: Part) -> int | None:
    """Return the row id of the call that a part stands for, None for headings and what is between calls."""
    if isinstance(part, Line):
        return part.step.id
    if isinstance(part, Event) and (part.kind == "fail" or part.number is not None):
        return part.step.id
    return None


def _without_words(part: Part) -> Part:
    """Return a part with nothing that was said, and nothing that tools were used upon."""
    if isinstance(part, Chapter):
        return replace(part, title=None)
    if isinstance(part, Thread):
        return replace(part, task="", kind=keep_plain_name(part.kind) or "Subagent")
    if isinstance(part, Line):
        deed = replace(part.deed, object="", folder="", says="")
        return replace(part, deed=deed, problem="failed" if part.problem else "")
    if part.kind == "break":
        return replace(part, runs=(Run(_BROKE), *part.runs[1:]))
    return part
