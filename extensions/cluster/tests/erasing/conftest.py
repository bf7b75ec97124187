"""Fixtures of tests of the recorder."""

from tests.recorder.conftest import clock, control, organization, run  # noqa: F401
from tests.recorder.test_removals import start  # noqa: F401
