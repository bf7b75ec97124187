"""A restored service responds as the one that the backup was made of."""

import re
import time

import pytest
from starlette.testclient import TestClient

from manage.server import make_app
from runtime.settings import Settings
from store.backup.backup import make_backup
from store.backup.restore import restore_backup
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path, traces_folder
from store.traces.search.indexer import Indexer
from tests.conversations.sessions import conversation, request
from tests.dashboard.every_page import list_pages
from tests.dashboard.people import BASE_URL, Someone
from tests.recorder.conversations import Recording

LOG = "It sails by AKIAIOSFODNN7EXAMPLX. " * 400
# What differs each time: how long the page took, the id of a form.
_DIFFERING = re.compile(r'"query_ms": [\d.]+|, [\d.]+ ms(?=</footer>)|name="form_id" value="[^"]+"')


@pytest.fixture
def owner(control, settings):
    return Someone(control, settings.data_dir, "ann@example.org")


@pytest.fixture
def recorded(settings, owner):
    """Three calls of a session, of which the last breaks the cache, one that failed, one that waits."""
    recording = Recording(settings.data_dir, owner.organization_id)
    for turns, nation in ((1, "British"), (2, "British"), (3, "American")):
        recording.send(request(*conversation(turns, opening=f"A {nation} ship. {LOG}")))
    recording.send({"model": "x", "messages": []}, status_code=529, session_id=None)
    recording.spool({"model": "x", "messages": []}, session_id=None)
    recording.close()


def read_pages(data_dir, owner, query_server, monkeypatch, addresses):
    """Return each page, without what differs each time, by its address."""
    named = {"TAXIMETER_DATA_DIR": str(data_dir), "TAXIMETER_BASE_URL": BASE_URL}
    with query_server.serving(traces_folder(data_dir), monkeypatch):
        app = make_app(Settings.from_env(named))
        with TestClient(app, base_url=BASE_URL, follow_redirects=False) as client:
            found = {}
            for address in addresses:
                headers = owner.bearer if address.startswith("/api/") else owner.cookie
                response = client.get(address, headers=headers)
                assert response.status_code == 200, (address, response.text[:500])
                found[address] = _DIFFERING.sub("-", response.text)
            return found


@pytest.mark.slow
def test_a_restored_service_answers_every_page_as_before(
    settings, recorded, owner, query_server, monkeypatch, tmp_path
):
    owner.bearer  # noqa: B018 - a key that is made before the backup
    make_backup(settings.data_dir, tmp_path / "backup")
    restored = tmp_path / "restored"
    restored.mkdir()
    restore_backup(tmp_path / "backup", restored)
    for data_dir in (settings.data_dir, restored):  # both services start, and record what waited
        recording = Recording(data_dir, owner.organization_id)
        recording.record()
        recording.close()
        with TraceDatabase(trace_path(data_dir, owner.organization_id)) as traces:
            Indexer(traces.connection, time.monotonic).run(60)
    addresses = list(list_pages([1, 3, 4, 5], "s1"))
    before, after = (
        read_pages(data_dir, owner, query_server, monkeypatch, addresses)
        for data_dir in (settings.data_dir, restored)
    )
    assert before == after
    assert "British" in before["/calls/1"]
    assert "cache" in before["/calls/3"]
    assert len(before) == len(addresses) > 50
