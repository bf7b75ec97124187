"""The spool files that could not be recorded and were set aside (``reader.set_aside``)."""

from pathlib import Path

from store.spool.format import UNREADABLE, RequestHead, SpoolError
from store.spool.reader import read_exchange


def list_files(root: Path, organization_id: str) -> list[Path]:
    """Return the files of an organisation, by their names."""
    return sorted(
        path
        for path in (root / UNREADABLE).glob(f"*~{organization_id}*")
        if path.name.split("~")[1].partition(".")[0] == organization_id
    )


def read_head(path: Path) -> RequestHead | None:
    """Return what a file says about its request, None where it cannot be read."""
    try:
        exchange = read_exchange(path)
    except (SpoolError, OSError):
        return None
    return None if exchange is None else exchange.head
