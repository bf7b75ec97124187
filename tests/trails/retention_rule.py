"""A rule of retention: ``failed_days``, after which failed calls are removed."""

from tests.trails.copies import Copy, Trail

FIELD = """\
    failed_days: int | None = _declare(
        RetentionLimit(
            removes="failed_before",
            heading="Failures",
            about="Days for which failed calls are kept",
            unset="as long as other calls",
            option="--failed-days",
        )
    )
"""
MIGRATION = '''

@migrations()
def m099_failed_days(db: Database) -> None:
    """Let failed calls be kept for a shorter time."""
    db.execute("alter table retention_rules add column failed_days integer")
'''
LIMIT = "    failed_before: str | None = None\n"
PRUNING = """\
        if limits.failed_before is not None:
            entries += yield from _prune_failed(connection, endpoint_id, limits.failed_before)
"""
REMOVAL = """
def _prune_failed(connection: sqlite3.Connection, endpoint_id: str, before: str) -> Steps[int]:
    oldest = (
        "select id from usage where proxy_endpoint_id = ? and created_at < ?"
        " and outcome <> 'complete' order by created_at, id limit 1"
    )
    return (yield from _remove_oldest(connection, _ROUND_ENTRIES, oldest, (endpoint_id, before)))

"""
COUNT = """\
        failed = f"{_CALLS} and outcome <> 'complete'"
        failed_before = limits.failed_before or ""
        entries += _count(connection, failed, endpoint_id, entries_before, failed_before)
"""
DESCRIPTION = """\
- **`failed_days`**: after so many days a call goes that failed.
"""
PAGES = """
from store.control import retention
from store.traces.database import TraceDatabase
from runtime import clock
from tests.store.traffic import make_entry


def test_failed_calls_are_removed_and_counted_before(ann):
    with TraceDatabase(ann.path) as traces:
        traces.insert([make_entry(), make_entry(outcome="upstream_error")])
    assert "Days for which failed calls are kept" in ann.get("/settings/data/retention").text
    assert ann.post("/settings/retention", failed_days="7").status_code == 303
    state = ann.get("/api/retention", **ann.bearer).json()
    assert (state["failed_days"], state["next_run"]["entries"]) == (7, 1)
    with ann.control.reading() as db:
        rules = retention.find_rules(db, ann.organization_id, clock.now())
    with TraceDatabase(ann.path) as traces:
        (*_, ) = traces.prune_in_steps(rules)
        assert traces.count_entries() == 1
        assert list(traces.verify()) == []
    assert ann.get("/api/retention", **ann.bearer).json()["next_run"]["entries"] == 0
    wrong = ann.browser.put("/api/retention", json={"failed_days": 0}, headers=ann.bearer)
    assert wrong.json()["error"]["field"] == "failed_days"
"""
COMMANDS = """
def test_the_command_sets_and_shows_it(run):
    assert "Failures:  7 days" in run("retention", "set", "--failed-days", "7").stdout
    of_endpoint = run("retention", "set", "--endpoint", "default", "--failed-days", "1")
    assert "Failures: 1 day" in of_endpoint.stdout
"""


def walk(copy: Copy) -> None:
    copy.insert("store/control/retention.py", FIELD, before="    max_bytes: int | None = _declare(")
    copy.append("store/control/schema.py", MIGRATION)
    work = "store/traces/maintenance/retention.py"
    copy.insert(work, LIMIT, before="    texts_before: str | None = None")
    copy.insert(work, PRUNING, before="        if limits.texts_before is not None:")
    copy.insert(work, REMOVAL, before="\ndef _prune_by_size(")
    copy.insert(
        "store/traces/maintenance/retention_preview.py", COUNT, before="    size = used_bytes("
    )
    copy.insert("docs/retention.md", DESCRIPTION, before="- **`max_bytes`**")


TRAIL = Trail(
    heading="Add a rule of retention",
    walk=walk,
    checks={
        "tests/dashboard/test_walked_rule.py": PAGES,
        "tests/manage/cli/test_walked_rule.py": COMMANDS,
    },
    tests=("tests/store/control/test_data_removal.py", "tests/store/upgrades"),
)
