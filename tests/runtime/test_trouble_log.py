import logging

import pytest

from runtime.trouble_log import TroubleLog


@pytest.fixture
def trouble():
    return TroubleLog(logging.getLogger("test"), "IMPAIRED: %s")


def test_a_trouble_that_lasts_is_logged_once(trouble, caplog):
    trouble.report("disk full")
    trouble.report("disk full")
    assert caplog.messages == ["IMPAIRED: disk full"]


def test_a_trouble_that_changes_or_comes_back_is_logged_again(trouble, caplog):
    for text in ("disk full", "no such folder", "disk full"):
        trouble.report(text)
    trouble.clear()
    trouble.report("disk full")
    assert len(caplog.messages) == 4
