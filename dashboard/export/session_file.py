"""A session as one HTML file, which needs no service: styles and images are in it, scripts are not.

Its text comes from traces, so it forbids itself whatever might load or run something (its policy is in its
head). It is made turn by turn, so a long session takes the memory of one call; what was said in a turn is
made in a query process (``words``).
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

from markupsafe import Markup

from dashboard import rendering
from dashboard.sessions.opened import Opened
from dashboard.sessions.turns import TurnLine
from runtime import clock

_STYLES = ("taximeter.css", "session.css", "conversation.css", "code.css", "session-file.css")
_STATIC = Path(rendering.__file__).parent / "static"


@cache
def read_styles() -> str:
    """Return the style sheets of the file."""
    return "\n".join((_STATIC / name).read_text() for name in _STYLES)


class SessionFile:
    """The parts of a file. Without bodies it has no words of requests and responses, no titles either."""

    def __init__(self, opened: Opened, *, with_bodies: bool, exported_by: str) -> None:
        self._opened = opened
        self._with_bodies = with_bodies
        self._exported_by = exported_by

    def render_head(self) -> str:
        """Return what comes before the turns."""
        return rendering.render_part(
            "session_file_head.html",
            title=self._opened.session.title if self._with_bodies else None,
            styles=read_styles(),
            with_bodies=self._with_bodies,
            exported_by=self._exported_by,
            exported_at=clock.format_ms(clock.now()),
            **self._opened.as_context(),
        )

    def render_turn(self, line: TurnLine, words: str) -> str:
        """Return a turn with the markup of its words."""
        shown = line if self._with_bodies else _without_words(line)
        return rendering.render_part(
            "session_file_turn.html",
            line=shown,
            words=Markup(words),  # noqa: S704 - of a template
        )

    @staticmethod
    def render_foot() -> str:
        """Return what comes behind the turns."""
        return rendering.render_part("session_file_foot.html")


def _without_words(line: TurnLine) -> TurnLine:
    """Return a line with nothing that was said: titles, and what a cache break changed."""
    broken = "cache break" if line.cache_break else None
    return replace(line, title=None, cache_break=broken)
