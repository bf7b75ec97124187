"""The parts of a session in its exported file: chapters, turns and events in order, none of them
folded.
"""

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
    """A session for an exported file: all turns are on one page, and no link leads to the service. Without
    bodies the file has no text of requests and responses, and no targets of tool uses (such as file
    names)."""

    with_bodies: bool

    @property
    def parts(self) -> list[Part]:
        """Return the parts of the file in their order."""
        found = [
            part for chapter in self.story.chapters for part in (chapter, *unfold(chapter.items))
        ]
        return found if self.with_bodies else [_without_words(part) for part in found]

    def call_address(self, step: Step) -> str:
        """Return "", since a file has no links to the service."""
        return ""

    def event_address(self, event: Event) -> str:
        """Return "", since a file has no links to the service."""
        return ""

    @staticmethod
    def shorten(model: str) -> str:
        """Return the whole name of a model, since readers of the file may not know the short names."""
        return model

    def _label_turns(self) -> dict[int, str]:
        return super()._label_turns() if self.with_bodies else {}

    def _find_place(self, step: Step, anchor: str) -> str:
        return f"#{anchor}"


def find_call(part: Part) -> int | None:
    """Return the row id of the call that a part shows, None for headings and events without a call."""
    if isinstance(part, Line):
        return part.step.id
    if isinstance(part, Event) and (part.kind == "fail" or part.number is not None):
        return part.step.id
    return None


def _without_words(part: Part) -> Part:
    """Return a part without recorded text and without targets of tool uses."""
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
