"""Claude Code with message threads: its session is shown as without them."""

import re
import shutil
from html import unescape
from pathlib import Path

from tests.live.clients.checks import read_whole, rows_in_order
from tests.live.clients.claude_code import run_claude_code
from tests.live.clients.programs import needs_claude_code
from tests.live.message_threads import Reply, ThreadUpstream
from tests.live.messages import text, tool_use
from tests.live.service import Endpoint

FILES = ("fare.txt", "stops.txt")
FACTS = ("message_count", "tool_count", "title_text", "cost_cents", "outcome")
# What tells two runs of the same conversation apart: numbers of calls, times, spans of time, which are one
# time if they begin and end in the same minute, and durations in one unit or two, the short ones as `<1 s`.
NUMBERS = re.compile(r'<a href="/(traces/usage|calls)/[^>]+>\d+</a>')
TIME = r"([A-Z][a-z]{2} \d\d? [A-Z][a-z]{2}( \d{4})?, |\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(:\d\d)?(\.\d+Z?)?"
CHANGING = re.compile(
    rf"call \d+|{TIME}( to {TIME})?|<?\d[\d.,]* (ms|s|min|h)\b( \d\d? (s|min)\b)?"
)


def converse(endpoint: Endpoint, folder: Path, *, has_threads: bool) -> str:
    """Let Claude Code read two files, in an empty home; return the id of its session."""
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(f"This is what {name} says. " * 200)
    replies = [
        Reply(
            content=[
                text(f"I read {name}."),
                tool_use("Read", {"file_path": str(folder / name)}, block_id=f"toolu_{name}"),
            ]
        )
        for name in FILES
    ]
    threads = ThreadUpstream([*replies, Reply(content=[text("Both are read.")])], endpoint.slug)
    endpoint.upstream.choose = threads.respond
    result = run_claude_code(endpoint, folder, "--", "Read the two files.", has_threads=has_threads)
    assert result["result"] == "Both are read."
    assert threads.errors == []
    shutil.rmtree(folder)
    session: str = result["session_id"]
    return session


def read_lines(endpoint: Endpoint, path: str, session: str) -> list[str]:
    """Return the lines of a page, without what two runs of the same conversation do not share."""
    key = [("Authorization", f"Bearer {endpoint.service.create_key('page')}")]
    response = endpoint.service.get_page(path, key)
    assert response.status == 200
    page = NUMBERS.sub("…", response.body.decode().replace(session, "…"))
    lines = CHANGING.sub("…", unescape(re.sub(r"<[^>]+>", "", page))).splitlines()
    return [line.strip() for line in lines if line.strip()]


@needs_claude_code
def test_claude_code_has_the_same_session_with_threads_as_without(
    live: Endpoint, tmp_path: Path
) -> None:
    steps, facts, pages, sent = [], [], [], []
    for has_threads in (False, True):
        session = converse(live, tmp_path / "home", has_threads=has_threads)
        rows = [row for row in rows_in_order(live) if row["session_id"] == session]
        steps.append([row["thread"] for row in rows])
        facts.append([[row[name] for name in FACTS] for row in rows])
        pages.append(
            [
                *read_lines(live, f"/sessions/{session}", session),
                *read_lines(live, f"/sessions/{session}/context", session),
            ]
        )
        sent.append(read_whole(live, rows[-1]).sent)
    assert steps == [[None] * 3, ["create", "continue", "continue"]]
    assert facts[0] == facts[1]
    assert pages[0] == pages[1]
    assert sent == [None, 1]
