"""The folder ``incoming`` of a data directory, for what a node takes and what it removes.

    data/incoming/<id>/            made here; its name is never one that somebody told
    data/incoming/handover.json    the last move that this node handed over

Nothing else of a data directory is ever removed for a move: what has to go from the traces is first moved
here, in one step, and a folder without a state is removed at the next start.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from extensions.cluster import checks, records
from extensions.cluster.checks import RecordError
from extensions.cluster.records import Move
from runtime import clock
from runtime.files import replace_private, sync

INCOMING = "incoming"
HANDOVER = "handover.json"


def make_folder(data_dir: Path) -> Path:
    """Return a new folder. Raises OSError."""
    folder = data_dir / INCOMING / clock.new_id()
    folder.mkdir(mode=0o700, parents=True)
    return folder


def list_folders(data_dir: Path) -> list[Path]:
    """Return the folders that were made here."""
    return sorted(each for each in (data_dir / INCOMING).glob("*") if _is_ours(data_dir, each))


def remove(data_dir: Path, folder: Path) -> None:
    """Remove a folder that was made here. Raises ValueError for any other, OSError."""
    if not _is_ours(data_dir, folder):
        raise ValueError(f"{folder} is not a folder of {INCOMING}")
    shutil.rmtree(folder)


def remove_traces(data_dir: Path, folders: Sequence[Path]) -> None:
    """Remove folders of traces, none of them half. Raises OSError."""
    if not folders:
        return
    taken = make_folder(data_dir)
    for folder in folders:
        folder.rename(taken / folder.name)
    remove(data_dir, taken)


def note_handover(data_dir: Path, move: Move) -> None:
    """Note that a move is about to be handed over. Raises OSError."""
    (data_dir / INCOMING).mkdir(mode=0o700, exist_ok=True)
    replace_private(data_dir / INCOMING / HANDOVER, move.pack())
    sync(data_dir / INCOMING / HANDOVER)
    sync(data_dir / INCOMING)


def was_handed_over(data_dir: Path, move: Move) -> bool:
    """Return whether this node handed a move over, whatever the server says."""
    try:
        return records.parse_move((data_dir / INCOMING / HANDOVER).read_bytes()) == move
    except (OSError, RecordError):
        return False


def _is_ours(data_dir: Path, folder: Path) -> bool:
    try:
        checks.identifier(folder.name)
    except RecordError:
        return False
    incoming = data_dir / INCOMING
    return (
        folder.parent == incoming
        and not incoming.is_symlink()
        and not folder.is_symlink()
        and folder.is_dir()
    )
