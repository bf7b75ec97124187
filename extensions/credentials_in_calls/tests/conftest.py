"""Fixtures of the tests here."""

from tests.store.conftest import _databases_are_copies, traces, traces_path  # noqa: F401
