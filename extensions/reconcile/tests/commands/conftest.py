"""Fixtures of tests of commands."""

from tests.manage.conftest import *  # noqa: F403
