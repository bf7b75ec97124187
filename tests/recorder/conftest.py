"""Fixtures of the tests of the recorder."""

import pytest


@pytest.fixture(autouse=True)
def _databases_are_copies(quick_databases: None) -> None:
    """Save the migrations: most of these tests make a database or two."""
