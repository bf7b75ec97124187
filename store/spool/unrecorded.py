"""Calls that are in the spool and not yet in a database."""

from itertools import islice
from pathlib import Path

from store.spool import reader
from store.spool.format import DONE, OPEN, UNREADABLE, SpoolError

MAX_LOOKED_AT = 1_000  # of a backlog, the newest: calls of a run that has just ended


def count_unrecorded(spool_path: Path, organization_id: str, run_id: str) -> int:
    """Return how many calls of a run are in flight or wait for the recorder.

    The recorder removes a file after it has committed its entry, so a call that is not counted here is
    in the database already. Among very many files only the newest are looked at."""
    newest = sorted(_find_files(spool_path, organization_id), key=lambda path: path.name)[::-1]
    return sum(_is_of_run(path, run_id) for path in islice(newest, MAX_LOOKED_AT))


def _find_files(spool_path: Path, organization_id: str) -> set[Path]:
    """Return the files of an organization, without their suffix."""
    pattern = f"*/*~{organization_id}.*"
    return {
        path.with_suffix("")
        for _ in range(2)  # one listing can miss a file that is renamed under it
        for path in spool_path.glob(pattern)
        if path.suffix in (OPEN, DONE) and path.parent.name != UNREADABLE
    }


def _is_of_run(path: Path, run_id: str) -> bool:
    for suffix in (OPEN, DONE):  # in the order that a file has them
        try:
            head = reader.read_head(path.with_suffix(suffix))
        except (OSError, SpoolError):
            continue  # recorded meanwhile, or not a file that will become an entry
        return head is not None and head.run_id == run_id
    return False
