"""The pictures of README.md and docs/, made from ``taximeter demo``.

python -m tests.browser.pictures [NAME ...]      or ./run.sh generate --pictures
"""

import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver.remote.webdriver import WebDriver

from extensions.demo.commands import Addresses
from extensions.demo.library import read_table
from tests import ROOT
from tests.browser.chromium import run_chromium, why_missing
from tests.browser.site import SIGN_IN
from tests.browser.visitor import Visitor, new_visitor
from tests.live.command import call_here, running
from tests.live.service import Output
from tests.upstream import PATIENCE_S, wait_until

FOLDER = ROOT / "docs" / "screenshots"
WIDTH, HEIGHT = 1280, 900
QUALITY = 80  # per cent: letters look as they do in a picture without loss
CALLS_S = 180.0
PACE = 3.0  # slow enough to see calls in flight, and about as fast as models are
AGENT = "reminders"  # the conversation that most pictures are of

type Calls = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Picture:
    """A page with its address, how much of it is seen, and what it says when it is ready to be taken, as a
    regular expression. ``{broken}`` and the like are ids (see ``_find_ids``)."""

    address: str
    height: int
    says: str


PICTURES: Mapping[str, Picture] = {
    "home": Picture("/", 1330, "Could be saved"),
    "overview": Picture("/?period=7d&by=endpoint", 760, "by endpoint"),
    "session": Picture("/sessions/{session}", 1100, "The cache broke"),
    "call": Picture("/calls/{broken}", 1650, "New in this call"),
    "compare": Picture("/traces/usage/{before}/compare/{broken}", 1450, "Swap before and after"),
    "failed": Picture("/calls?failed=1", 760, "Failed"),
    "search": Picture("/search?q=local_day", 1150, "also in 6 later calls"),
    "context": Picture("/traces/usage/{last}/context", 1020, "By category"),
    "savings": Picture("/savings", 1020, "Sessions with most to save"),
    "replay": Picture("/traces/usage/{last}/replay", 1700, "Recorded response"),
}
WITH_SAVINGS = {"home", "overview", "session", "savings"}
# While the demo makes its calls: several in flight.
IN_FLIGHT = "flights"
LIVE = Picture("/calls", 900, r"(?s)(\bnow\b.*){4}")


def take_pictures(driver: WebDriver, folder: Path, names: Collection[str], pace: float) -> None:
    """Run the demo, and write the pictures with these names into a folder."""
    with (
        _run_demo(pace) as (addresses, errors),
        new_visitor(driver, addresses.base_url, is_drawn=True) as visitor,
    ):
        visitor.resize(WIDTH, HEIGHT)
        visitor.prefer("light")
        visitor.open(addresses.sign_in_url)
        visitor.follow(SIGN_IN, "button")
        if IN_FLIGHT in names:
            visitor.open(LIVE.address)
            visitor.wait_for(lambda: re.search(LIVE.says, visitor.text), "calls in flight")
            _take(visitor, LIVE, folder / f"{IN_FLIGHT}.webp")
        wait_until(lambda: "calls are complete" in errors.text, "the calls", patience_s=CALLS_S)
        agent: Calls = []

        def is_recorded() -> bool:
            agent[:] = _read_agent(addresses.data_dir)
            return len(agent) == len(read_table(f"conversations/{AGENT}")["turn"])

        wait_until(is_recorded, "the calls of the agent", patience_s=PATIENCE_S)

        def is_looked_at() -> bool:
            visitor.open("/savings")
            return "to be looked at" not in visitor.text

        if not WITH_SAVINGS.isdisjoint(names):
            wait_until(is_looked_at, "the savings of all sessions", patience_s=CALLS_S)
        ids = _find_ids(agent)
        for name in PICTURES:
            if name in names:
                _open(visitor, PICTURES[name], ids)
                _take(visitor, PICTURES[name], folder / f"{name}.webp")


@contextmanager
def _run_demo(pace: float) -> Iterator[tuple[Addresses, Output]]:
    """Run the demo, and yield its addresses and what it says of its calls."""
    with tempfile.TemporaryDirectory() as home:
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": home,
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
        }
        # With a directory of its own, since its end is sudden and leaves the data behind.
        place = ("--keep", f"{home}/data", "--listen", "127.0.0.1:0")
        arguments = ("demo", "--json", "--pace", f"{pace}", *place)
        with running(arguments, environ) as (_process, output, errors):
            wait_until(lambda: output.text.endswith("}\n"), "its addresses", patience_s=PATIENCE_S)
            yield Addresses(**json.loads(output.text)), errors


def _read_agent(data_dir: str) -> Calls:
    """Return the calls of the coding agent of today, without failures, side calls and subagents."""
    done = call_here(("export", "--json"), {"TAXIMETER_DATA_DIR": data_dir, "HOME": data_dir})
    calls: Calls = [
        call
        for call in json.loads(done.stdout)["items"]
        if call["model"] == "claude-opus-5-5"
        and not call["agent_id"]
        and call["outcome"] == "complete"
    ]
    return [call for call in calls if call["session_id"] == calls[-1]["session_id"]]


def _find_ids(agent: Calls) -> Mapping[str, Any]:
    """Return the ids of a session: its call that broke the cache, the one before, and the last."""
    [broken] = [at for at, call in enumerate(agent) if at and not call["cache_read_input_tokens"]]
    return {
        "session": agent[0]["session_id"],
        "before": agent[broken - 1]["id"],
        "broken": agent[broken]["id"],
        "last": agent[-1]["id"],
    }


def _open(visitor: Visitor, picture: Picture, ids: Mapping[str, Any]) -> None:
    """Open a page, again until all of it is there: texts are indexed some time after a call."""

    def is_ready() -> object:
        visitor.open(picture.address.format_map(ids))
        return re.search(picture.says, visitor.text)

    visitor.wait_for(is_ready, lambda: f"{picture.says!r} in {visitor.text}")


def _take(visitor: Visitor, picture: Picture, path: Path) -> None:
    """Write the upper part of the page that is open."""
    page = visitor.run("return document.documentElement.scrollHeight")
    height = min(page, picture.height)
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    taken = visitor.cdp(
        "Page.captureScreenshot",
        format="webp",
        quality=QUALITY,
        captureBeyondViewport=True,
        clip=clip,
    )
    path.write_bytes(base64.b64decode(taken["data"]))


def main(*names: str) -> None:
    with run_chromium() as driver:
        take_pictures(driver, FOLDER, names or (IN_FLIGHT, *PICTURES), PACE)


if __name__ == "__main__":
    unknown = {*sys.argv[1:]} - {IN_FLIGHT, *PICTURES}
    if unknown or why_missing():
        sys.exit(why_missing() or __doc__)
    main(*sys.argv[1:])
