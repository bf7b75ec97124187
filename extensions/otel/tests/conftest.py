"""Fixtures of the tests here."""

from tests.manage.metrics.conftest import client, scrape, settings_given, site  # noqa: F401
from tests.store.conftest import _databases_are_copies, traces, traces_path  # noqa: F401
