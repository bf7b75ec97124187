"""The folder ``incoming`` of a data directory, for files that a node takes or removes in a move.

    data/incoming/<id>/            created here; its name never comes from another node
    data/incoming/handover.json    the last move that this node handed over

Nothing else in a data directory is ever removed for a move: traces to be removed are first moved here,
atomically, and a folder without a state is removed at the next start."""

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
    """Return a new folder in ``incoming``. Raises OSError."""
    folder = data_dir / INCOMING / clock.new_id()
    folder.mkdir(mode=0o700, parents=True)
    return folder


def list_folders(data_dir: Path) -> list[Path]:
    """Return the folders in ``incoming``."""
    return sorted(each for each in (data_dir / INCOMING).glob("*") if _is_ours(data_dir, each))


def remove(data_dir: Path, folder: Path) -> None:
    """Remove a folder in ``incoming``. Raises ValueError for any other folder, OSError."""
    if not _is_ours(data_dir, folder):
        raise ValueError(f"{folder} is not a folder of {INCOMING}")
    shutil.rmtree(folder)


def remove_traces(data_dir: Path, folders: Sequence[Path]) -> None:
    """Remove folders of traces; after a crash each is either complete or gone. Raises OSError."""
    if not folders:
        return
    taken = make_folder(data_dir)
    for folder in folders:
        folder.rename(taken / folder.name)
    remove(data_dir, taken)


def note_handover(data_dir: Path, move: Move) -> None:
    """Store that a move is about to be handed over. Raises OSError."""
    (data_dir / INCOMING).mkdir(mode=0o700, exist_ok=True)
    replace_private(data_dir / INCOMING / HANDOVER, move.pack())
    sync(data_dir / INCOMING / HANDOVER)
    sync(data_dir / INCOMING)


def was_handed_over(data_dir: Path, move: Move) -> bool:
    """Return whether this node has stored that it handed over a move."""
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
