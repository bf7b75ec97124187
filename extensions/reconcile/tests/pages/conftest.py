"""Fixtures of tests of pages."""

from tests.dashboard.conftest import (  # noqa: F401
    _databases_are_copies,
    ann,
    app,
    bob,
    cid,
    client,
    control,
    make_person,
    new_control_file,
    queries,
    query_server,
    settings,
    stranger,
)
