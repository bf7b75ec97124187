"""Findings go with their calls, and into backups before them."""

from contextlib import closing

from extensions.credentials_in_calls.findings import (
    Finding,
    FoundSecrets,
    Progress,
    secrets_path,
)
from store import database
from store.backup import copying
from store.traces import steps
from store.traces.database import TraceDatabase
from store.traces.maintenance.criteria import Criteria
from tests.store.backup.conftest import copy, place, template  # noqa: F401
from tests.store.stored_words import find_word
from tests.store.traffic import make_entry

WORD = "quokkaplonkify"


def test_nothing_of_the_findings_in_erased_calls_is_left_in_any_file(traces):
    traces.insert([make_entry(session_id="gone"), make_entry(session_id="stays")])
    with closing(FoundSecrets(traces.path)) as found:
        for usage_id, shown in ((1, WORD), (2, "other")):
            finding = Finding(
                usage_id=usage_id,
                digest=shown.encode(),
                kind="key",
                place="user",
                shown=shown,
                created_at="2026-01-02T10:00:00.000Z",
            )
            found.add(Progress(usage_id, 1), [finding])
        # Open meanwhile, as in the recorder: else the file is closed, and its log gone, of itself.
        assert find_word(traces.path.parent, WORD)
        work = traces.erase_in_steps("an-order", Criteria(session="gone"))
        assert steps.run(work, lambda _s: None) == 1
        assert find_word(traces.path.parent, WORD) == []
    with closing(database.open_readonly(secrets_path(traces.path), busy_timeout_s=1)) as found:
        assert found.execute("select shown from found").fetchall() == [("other",)]


def test_findings_are_never_ahead_of_the_calls_that_they_are_about(place, copy, monkeypatch):  # noqa: F811
    """Else a call that is recorded after a restore would be taken for one that was searched."""
    copy_database = copying.copy_database

    def record_meanwhile(source, target):
        copy_database(source, target)
        if source.name == "secrets.db":
            place.insert("a", make_entry())
            found = FoundSecrets(place.traces("a"))
            found.add(Progress(usage_id=8, piece_id=9), [])
            found.close()

    monkeypatch.setattr(copying, "copy_database", record_meanwhile)
    copy.make()
    restored = copy.restore() / place.traces("a").relative_to(place.data_dir)
    with TraceDatabase(restored) as traces:
        found = FoundSecrets(restored)
        progress = found.read_progress()
        found.close()
        assert progress is not None
        assert progress.usage_id <= traces.count_entries() == 8
