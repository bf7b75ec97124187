"""One session with all that its page and its exported file show."""

from collections.abc import Callable, Mapping, Sequence

from dashboard.sessions.story.chapters import NO_NOTICES, Notices
from dashboard.sessions.story.story import tell_story
from dashboard.sessions.view import View
from store.traces.sessions.session_reader import SessionReader

MOST_TURNS = 5_000  # of a story
NO_SESSION = "There is no such session, or retention has removed its calls."


def find_no_notices(_usage_ids: Sequence[int]) -> Notices:
    """Return no warnings, for a view without them."""
    return NO_NOTICES


def open_view(
    reader: SessionReader | None,
    session_id: str,
    page: int,
    names: Mapping[str, str],
    find_notices: Callable[[Sequence[int]], Notices] = find_no_notices,
) -> View | None:
    """Return a page of the story of a session, or None if it does not exist. Raises sqlite3.Error.

    ``names`` maps fingerprints of credentials to names. ``find_notices`` returns warnings about calls by
    their row ids."""
    session = None if reader is None else reader.find(session_id)
    if reader is None or session is None:
        return None
    turns = reader.list_turns(session_id, MOST_TURNS)
    deeds = reader.read_deeds(turns)
    notices = find_notices([turn.id for turn in turns])
    story = tell_story(turns, deeds, max(session.calls - len(turns), 0), notices)
    return View(
        session=session,
        story=story,
        page=min(page, max(len(story.pages), 1)),
        annotations=reader.read_annotations(session_id),
        figures=reader.read_figures(session_id),
        tool_costs=reader.list_tool_costs(session),
        names=names,
    )
