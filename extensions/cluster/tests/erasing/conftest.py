"""Fixtures of tests of the recorder."""

from tests.recorder.test_removals import (  # noqa: F401
    clock,
    control,
    organization,
    spool,
    start,
)
