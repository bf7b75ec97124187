"""A session as one HTML file, which needs no service: styles and images are in it, scripts are not.

Its text comes from traces, so it forbids itself whatever might load or run something (its policy is in its
head). It is made part by part, so a long session takes the memory of one call; what was said in a turn is
made in a query process (``words``).
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
    """Return the style sheets of the file."""
    return "\n".join((_STATIC / name).read_text() for name in _STYLES)


class SessionFile:
    """A file with its HTML before the turns, and the parts that follow."""

    def __init__(self, view: FileView, caller: Caller, *, exported_by: str) -> None:
        """Make a file for a caller, whose name is ``exported_by``."""
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
        """Return a part with the markup of its words."""
        return rendering.render_part(
            "session_file_turn.html",
            visitor=self._caller,
            part=part,
            view=self.view,
            words=Markup(words),  # noqa: S704 - of a template
        )

    @staticmethod
    def render_foot() -> str:
        """Return what comes behind the turns."""
        return rendering.render_part("session_file_foot.html")
