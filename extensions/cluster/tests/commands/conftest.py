"""Fixtures of tests of commands."""

from tests.manage.conftest import (  # noqa: F401
    _databases_are_copies,
    _plain_environment,
    data_dir,
    far_from_utc,
    run,
    traces,
)
