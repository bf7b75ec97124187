"""Fixtures of the tests of the MCP server: a data directory, and a running service for the live one."""

import sys

import pytest

from tests.live.conftest import (
    live as live,
    make_endpoint as make_endpoint,
    shared_service as shared_service,
    shared_upstream as shared_upstream,
)
from tests.manage.conftest import (
    data_dir as data_dir,
    run as run,
    traces as traces,
)

if sys.version_info < (3, 13):
    # mcp needs a newer pydantic than the locked mitmproxy allows on 3.12.
    pytest.skip(
        "there is no mcp for Python 3.12 in the lock; run the tests with 3.13",
        allow_module_level=True,
    )
