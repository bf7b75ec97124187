"""Databases stay open as long as their files are theirs."""

import shutil

from recorder.open_databases import OpenDatabases
from store.traces.bodies.bodies import RequestPreparer
from store.traces.paths import trace_path
from tests.store.traffic import make_entry


def test_a_file_that_was_moved_away_and_back_is_opened_again(tmp_path):
    # As a bucket of a cluster is: what is written to the one that is gone would be lost.
    databases = OpenDatabases(tmp_path, RequestPreparer())
    databases.open("a").insert([make_entry(entry_id="1")])
    databases.close("a")
    first = databases.open("a")
    assert databases.open("a") is first
    folder = trace_path(tmp_path, "a").parent
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    databases.open("a").insert([make_entry(entry_id="2")])
    databases.close_all()
    assert databases.open("a").count_entries() == 2
    databases.close_all()
