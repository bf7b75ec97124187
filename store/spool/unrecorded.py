"""Calls that are in the spool and not in a database.

They are in flight, wait for the recorder, or were set aside because they could not be recorded
(``reader.set_aside``). Only the names of files are read, except of those set aside."""

from pathlib import Path

from store.spool.format import DONE, OPEN, UNREADABLE, RequestHead, SpoolError
from store.spool.reader import read_exchange


def count_unrecorded(spool_path: Path, organization_id: str, run_id: str) -> int:
    """Return how many calls of a run are in flight or wait for the recorder.

    The recorder removes a file after it has committed its entry, so a call that is not counted here is
    in the database already. Only names are read, no file is opened."""
    ending = f"~{organization_id}~{run_id}"
    names = {
        path.stem
        for _ in range(2)  # one listing can miss a file that is renamed under it
        for path in spool_path.glob(f"*/*{ending}.*")
        if path.suffix in (OPEN, DONE) and path.parent.name != UNREADABLE
    }
    return sum(name.endswith(ending) for name in names)


def find_unrecorded(spool_path: Path, organization_id: str) -> set[str]:
    """Return the entry ids of an organisation's calls that are in flight or wait for the recorder."""
    return {
        path.name.partition("~")[0]
        for _ in range(2)  # as above
        for path in spool_path.glob(f"*/*~{organization_id}*")
        if path.suffix in (OPEN, DONE)
        and path.parent.name != UNREADABLE
        and path.stem.split("~")[1] == organization_id
    }


def list_set_aside(root: Path, organization_id: str) -> list[Path]:
    """Return the files of an organisation that were set aside, sorted by name."""
    return sorted(
        path
        for path in (root / UNREADABLE).glob(f"*~{organization_id}*")
        if path.name.split("~")[1].partition(".")[0] == organization_id
    )


def read_head_set_aside(path: Path) -> RequestHead | None:
    """Return the head of the request in a file, or None if it cannot be read."""
    try:
        exchange = read_exchange(path)
    except (SpoolError, OSError):
        return None
    return None if exchange is None else exchange.head
