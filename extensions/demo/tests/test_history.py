"""Two weeks of history: the same each time, over before now, and stored as what the proxy spools."""

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from extensions.demo import history
from extensions.demo.commands import set_up_organization
from extensions.demo.schedule import DAY, LAST, Past
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from store.traces.paths import find_trace_files

MONDAY = datetime(2026, 7, 6, 15, 30, tzinfo=UTC)


def test_the_history_of_an_instant_is_always_the_same():
    assert Past(MONDAY).list_sent() == Past(MONDAY).list_sent()


@pytest.mark.slow
@pytest.mark.parametrize("days", range(7))
def test_it_is_two_weeks_in_which_days_and_hours_differ_and_ends_before_now(days):
    now = MONDAY + days * DAY
    sent = Past(now).list_sent()
    instants = [each.at for each in sent]
    assert instants == sorted(instants)
    assert now - 15 * DAY < instants[0] < now - 13 * DAY
    assert now - timedelta(hours=12) < instants[-1] < now - LAST
    by_day = Counter(at.date() for at in instants)
    assert len(by_day) == 15
    working = [count for day, count in by_day.items() if day.weekday() < 5 and day != now.date()]
    assert len({*working}) > 3
    assert min(working) > max(count for day, count in by_day.items() if day.weekday() == 6)
    assert len({at.hour for at in instants}) == 24
    assert len({each.call.program.endpoint for each in sent}) == 4
    assert len({each.call.body["model"] for each in sent}) == 4
    assert {200, 400, 429, 529} <= {each.reply.status for each in sent}


@pytest.mark.slow
def test_it_is_stored_with_its_instants_costs_and_sessions(tmp_path: Path) -> None:
    settings = Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path / "data")})
    settings.data_dir.mkdir(mode=0o700)
    with ControlDatabase(settings.control_path) as control:
        control.set_up()
        set_up_organization(Management.make(control, settings), Users(control))
    history.record(settings, MONDAY)
    with ControlDatabase(settings.control_path) as control:
        management = Management.make(control, settings)
        named = management.names.list(management.local_caller())
    sent = Past(MONDAY).list_sent()
    [path] = find_trace_files(settings.data_dir)
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute("select * from usage order by id").fetchall()
        breaks = {cause for (cause,) in db.execute("select cause from cache_breaks")}
    assert [row["created_at"] for row in rows] == [
        f"{each.at:%Y-%m-%dT%H:%M:%S}.{each.at.microsecond // 1000:03}Z" for each in sent
    ]
    assert {row["credential_hmac"] for row in rows} == {each.fingerprint for each in named}
    unpriced = [row for row in rows if row["usage_source"] != "none" and row["cost_cents"] is None]
    assert {row["model"] for row in unpriced} == {"claude-atlas-preview"}
    assert {"expired", "model"} <= breaks
    assert {row["billing"] for row in rows} == {"api_key", "subscription"}
    assert {row["outcome"] for row in rows} == {
        "complete",
        "upstream_error",
        "upstream_interrupted",
    }
    assert {row["slug"] for row in rows if row["title_text"] is None} == {"letters"}
    assert list(settings.spool_path.iterdir()) == []
