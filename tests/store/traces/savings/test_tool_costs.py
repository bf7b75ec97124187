"""Reading what tools cost."""

from datetime import date

from store.traces.database import TraceDatabase
from store.traces.savings.tools_reader import list_most_expensive_tools

ROW = "insert into tools_daily values (?, 'one', '', ?, ?, ?, 0, 0, ?, ?, ?)"


def test_tools_of_a_server_are_one_and_the_most_expensive_come_first(tmp_path):
    with TraceDatabase(tmp_path / "traces.db") as traces:
        with traces.connection as db:
            db.executemany(
                ROW,
                [
                    ("2026-03-08", "", "Read", 3, 1.0, 2.0, 4.0),
                    ("2026-03-09", "", "Read", 2, 0.0, 0.0, 1.0),
                    ("2026-03-09", "github", "search", 1, 5.0, 0.0, 1.0),
                    ("2026-03-09", "github", "read", 1, 5.0, 0.0, 0.0),
                    ("2026-03-09", "", "Bash", 9, 0.0, 0.5, 0.0),
                    ("2026-03-01", "", "Bash", 9, 0.0, 99.0, 0.0),
                    ("2026-03-09", "", "", 9, 0.0, 99.0, 0.0),
                ],
            )
        found = list_most_expensive_tools(traces.connection, date(2026, 3, 8), date(2026, 3, 9), 3)
    assert [(each.name, each.uses, each.cents) for each in found] == [
        ("github, MCP", 2, 11.0),
        ("Read", 5, 8.0),
        ("Bash", 9, 0.5),
    ]
