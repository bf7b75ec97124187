"""Failed calls by what failed."""

from store.traces.calls import failures
from store.traces.calls.failures import count_failures
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry

FAILED = {"outcome": "upstream_error", "status_code": 529, "error_type": "overloaded_error"}


def test_failures_are_counted_by_status_type_and_outcome(tmp_path, monkeypatch):
    with TraceDatabase(tmp_path / "traces.db") as traces:
        traces.insert(
            [
                make_entry(created_at=f"2026-03-{day:02}T00:00:00.000Z", **changes)
                for day, changes in (
                    (1, FAILED),
                    (8, FAILED),
                    (9, FAILED),
                    (9, {"outcome": "upstream_interrupted"}),
                    (10, {"outcome": "client_disconnected"}),
                    (10, {}),
                )
            ]
        )
        found = count_failures(traces.connection, "2026-03-08")
        assert [(each.status_code, each.error_type, each.calls) for each in found.kinds] == [
            (529, "overloaded_error", 2),
            (200, None, 1),
        ]
        assert found.kinds[0].last_at == "2026-03-09T00:00:00.000Z"
        assert (found.calls, found.is_part) == (3, False)
        monkeypatch.setattr(failures, "_OLDEST", failures._OLDEST.replace("4999", "3"))
        assert count_failures(traces.connection, "2026-03-08").is_part
