"""A session as one HTML file that works without the service: styles and images are inside, scripts are
not.

Its text comes from traces, so a policy in its head forbids whatever might load or run something. It is
made part by part, so a long session takes the memory of one call; the text of a turn is rendered in a
query process (``words``).
"""

from functools import cache
from pathlib import Path

from markupsafe import Markup

from dashboard import rendering
from dashboard.export.parts import FileView, Part
from runtime import clock
from store.control.people import Caller

_STYLES = (
    "header.css",
    "style.css",
    "story.css",
    "conversation.css",
    "code.css",
    "session-file.css",
)
_STATIC = Path(rendering.__file__).parent / "static"


@cache
def read_styles() -> str:
    """Return the style sheets of the file as one text."""
    return "\n".join((_STATIC / name).read_text() for name in _STYLES)


class SessionFile:
    """An exported file: ``head`` is its HTML before the turns, and ``parts`` are rendered one by one."""

    def __init__(self, view: FileView, caller: Caller, *, exported_by: str) -> None:
        """Render the head of a file. ``exported_by`` names the caller for readers of the file."""
        self.view = view
        self.parts = view.parts
        self._caller = caller
        self.head = rendering.render_part(
            "session_file_head.html",
            visitor=caller,
            title=view.session.title if view.with_bodies else None,
            styles=read_styles(),
            view=view,
            exported_by=exported_by,
            exported_at=clock.now(),
        )

    def render_turn(self, part: Part, words: str) -> str:
        """Return the HTML of a part. ``words`` is the HTML of the call's text, "" if there is none."""
        return rendering.render_part(
            "session_file_turn.html",
            visitor=self._caller,
            part=part,
            view=self.view,
            words=Markup(words),  # noqa: S704 - of a template
        )

    @staticmethod
    def render_foot() -> str:
        """Return the HTML after the turns."""
        return rendering.render_part("session_file_foot.html")
