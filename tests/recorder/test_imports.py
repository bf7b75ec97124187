"""Files of calls that are handed over to be imported, and the recorder that stores them."""

import json

import pytest

from recorder.background import RETRY_S
from recorder.imports import Imports
from recorder.open_databases import OpenDatabases
from store import call_imports
from store.traces.bodies.bodies import RequestPreparer
from store.traces.calls.call_list import read_calls
from store.traces.calls.reader import EntryFilter
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry


class Handing:
    """A data directory with a recorder, whose clock stands until a test moves it."""

    def __init__(self, folder):
        self.data_dir = folder / "data"
        self.now_s = 0.0
        self.stored: list[str] = []
        self._source = folder / "source.db"
        databases = OpenDatabases(self.data_dir, RequestPreparer())
        self.imports = Imports(self.data_dir, databases, lambda: self.now_s, self.stored.append)
        self.close = databases.close_all

    def hand_over(self, organization_id, name, *entries):
        with TraceDatabase(self._source) as traces:
            traces.connection.execute("delete from usage")
            traces.insert(entries)
        page = read_calls(self._source, "x", EntryFilter(), None, 10, with_bodies=True)
        lines = [json.dumps(each) for each in json.loads(b"".join(page.encode_items()))]
        return self.write(organization_id, name, "\n".join(lines))

    def write(self, organization_id, name, text):
        path = call_imports.find_folder(self.data_dir, organization_id) / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, steps=5):
        self.now_s += RETRY_S
        for _ in range(steps):
            self.imports.run_step()

    def count(self, organization_id):
        with TraceDatabase(trace_path(self.data_dir, organization_id)) as traces:
            return traces.count_entries()


@pytest.fixture
def handing(tmp_path):
    handing = Handing(tmp_path)
    yield handing
    handing.close()


def test_files_are_stored_once_and_go(handing):
    paths = [
        handing.hand_over("a", "1", make_entry(), make_entry(entry_id="same")),
        handing.hand_over("a", "2", make_entry(entry_id="same")),
        handing.hand_over("b", "1", make_entry()),
    ]
    handing.run()
    assert (handing.count("a"), handing.count("b")) == (2, 1)
    assert not any(path.exists() for path in paths)
    assert sorted(handing.stored) == ["a", "a", "b"]


def test_a_file_that_no_import_wrote_is_left_under_another_name(handing, caplog):
    path = handing.write("a", "1", "{}")
    handing.hand_over("a", "2", make_entry())
    handing.run()
    assert handing.count("a") == 1
    assert [each.name for each in path.parent.iterdir()] == ["1.refused"]
    assert "is not what an import hands over" in caplog.text


def test_a_database_that_is_locked_is_tried_again(handing):
    path = handing.hand_over("a", "1", make_entry())
    with TraceDatabase(trace_path(handing.data_dir, "a")) as traces:
        traces.connection.execute("begin immediate")
        handing.run()
        assert path.exists()
        traces.connection.execute("rollback")
    handing.run()
    assert handing.count("a") == 1
