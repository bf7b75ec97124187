"""A header that is forwarded: ``x-team``."""

import pytest

HEADING = "Add a header that is forwarded"

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


@pytest.mark.slow
def test_the_trail(copy):
    copy.insert("addon/headers.py", " x-team", after=" accept-encoding x-app")
    copy.check_named(HEADING, CHOICES)
    copy.generate()
    copy.create("tests/addon/test_walked.py", CHECK)
    copy.run_tests("tests/addon/test_walked.py", "tests/addon/test_headers.py")
