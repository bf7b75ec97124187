"""Fixtures of tests of pages."""

from tests.dashboard.conftest import *  # noqa: F403
