"""Pages of an organisation whose database cannot be read."""

import pytest

from tests.dashboard.pages import words_of


@pytest.mark.parametrize(
    "path",
    [
        "/calls",
        "/calls?by=session",
        "/sessions",
        "/sessions/s",
        "/tools",
        "/savings",
        "/savings/models",
    ],
)
def test_a_page_says_that_calls_are_still_proxied(ann, path):
    ann.record(session_id="s")
    for name in ("-wal", "-shm"):
        ann.path.with_name(ann.path.name + name).unlink(missing_ok=True)
    ann.path.write_bytes(b"not a database" * 100)
    page = ann.get(path)
    assert page.status_code == 503
    assert "Calls are still proxied, and will be stored." in words_of(page.text)
    assert "taximeter doctor" in page.text
    assert "sqlite" not in page.text.lower()
