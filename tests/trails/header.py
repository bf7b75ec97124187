"""A header that is forwarded: ``x-team``."""

from tests.trails.copies import Copy, Trail

CHECK = """
from addon.headers import RequestFilter
from tests import ROOT


def test_it_passes_and_is_listed():
    fields = ((b"X-Team", b"blue"), (b"x-teams", b"red"))
    assert RequestFilter("anthropic")(fields) == fields[:1]
    assert "`x-team`" in (ROOT / "docs" / "headers.md").read_text()
"""

CHOICES = (
    "addon/browsers.py",
    "metering/client_hints.py",
    "addon/dispatch.py",
    "addon/replays.py",
)


def walk(copy: Copy) -> None:
    copy.insert("addon/headers.py", " x-team", after=" accept-encoding x-app")


TRAIL = Trail(
    heading="Add a header that is forwarded",
    walk=walk,
    choices=CHOICES,
    checks={"tests/addon/test_walked_header.py": CHECK},
    tests=("tests/addon/test_headers.py",),
)
