"""The recorder adds up the times of days that are over, in its pauses."""

from recorder.open_databases import OpenDatabases
from recorder.timing_groups import PAUSE_S, TimingGroups
from store.traces.bodies.bodies import RequestPreparer
from store.traces.sums import timing_groups
from tests.store.traffic import make_entry


def test_days_that_are_over_are_added_up_one_in_a_step(tmp_path):
    databases = OpenDatabases(tmp_path, RequestPreparer())
    traces, now_s = databases.open("a"), 0.0
    traces.insert([make_entry(created_at=f"2026-01-0{day}T10:00:00.000Z") for day in (2, 3)])
    work = TimingGroups(databases, lambda: now_s)
    work.begin("a")
    found = []
    for now_s in (0.0, PAUSE_S, PAUSE_S, PAUSE_S):  # noqa: B007 - the clock of the work
        is_left = work.run_step()
        days = timing_groups.list_days(traces.connection, "2026-01-01", "2026-02-01")
        found.append((is_left, len(days)))
    assert found == [(True, 0), (True, 1), (True, 2), (False, 2)]
    databases.close_all()
