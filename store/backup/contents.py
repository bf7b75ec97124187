"""The files of a data directory, and what a backup does with each of them.

Calls go from the spool to the traces, and what they refer to is in ``control.db`` before them. So the order
of copying decides what a backup may lack: first comes what waits in the spool, then each organisation,
``control.db`` last.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from pathlib import Path, PurePosixPath

from runtime import extensions
from runtime.extension_values import DataFile
from store.spool.format import DONE, LOCK, OPEN, RESERVE, UNREADABLE
from store.spool.free_files import FREE

CONTROL = "control.db"
TRACES = "traces.db"
RESTORING = "taximeter-restore"
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~@+=-]{0,199}")


_SPOOL = (
    DataFile(f"spool/{UNREADABLE}/*", "copied first", "Calls that could not be recorded."),
    DataFile(f"spool/*/*{DONE}", "copied first", "Calls that have ended and are not recorded yet."),
    DataFile(
        f"spool/*/*{OPEN}",
        "copied first",
        "Calls in flight, as far as they came: restored, they are calls that a restart interrupted.",
    ),
)
_OURS = (
    DataFile(
        f"traces/*/{TRACES}",
        "copied as a database",
        "Calls with their bodies, sums, and the index of texts.",
        "store.traces.schema",
    ),
    DataFile(
        CONTROL,
        "copied as a database",
        "Organisations, people, proxy endpoints, hashes of keys, the activity log, and the keys that"
        " fingerprints of credentials are made with. Copied last: each call in the backup has its"
        " endpoint there.",
        "store.control.schema",
    ),
)
_LEFT_OUT = (
    DataFile("*.db-wal", "left out", "The copy of the database has what is in it."),
    DataFile("traces/*/*.db-wal", "left out", "The same."),
    DataFile("*.db-shm", "left out", "SQLite makes it again."),
    DataFile("traces/*/*.db-shm", "left out", "The same."),
    DataFile(f"spool/*/{LOCK}", "left out", "A lock of a running process."),
    DataFile(f"spool/*/{RESERVE}", "left out", "Room for when the disk is full, without content."),
    DataFile(f"spool/*/{FREE}/*", "left out", "Emptied files, for other calls."),
    DataFile("recorder.reserve", "left out", "The same."),
    DataFile("*.lock", "left out", "Locks of running processes."),
    DataFile("*.json", "left out", "What running processes say of themselves."),
    DataFile("*.new", "left out", "Drafts of such files."),
    DataFile("traces/*/*.new", "left out", "The same."),
    DataFile(
        "node.id", "left out", "The name of a recorder node: one that is restored has its own."
    ),
    DataFile(
        "extensions.db", "left out", "Up to which call extensions were told: they begin anew."
    ),
    DataFile(
        "imports/**", "left out", "Calls that are being imported from a file, which has them."
    ),
    DataFile("run.log", "left out", "What a service that `taximeter run` started has printed."),
    DataFile("incoming/**", "left out", "A bucket that is being moved here from another node."),
    DataFile(f"{RESTORING}/**", "left out", "What a restore that was interrupted has left."),
    DataFile("mitmproxy/**", "left out", "The folder of mitmproxy, which nothing is kept in."),
)


@cache
def list_rules() -> Sequence[DataFile]:
    """Return the rules for files. The first one that matches a path decides.

    Within an organisation this is also the order of copying: files of extensions, then the traces."""
    added = list(chain(*extensions.call().data_files()))
    copied = [each for each in added if each.is_copied]
    left_out = [each for each in added if not each.is_copied]
    return *_SPOOL, *copied, *_OURS, *left_out, *_LEFT_OUT


def list_names_of_organization() -> frozenset[str]:
    """Return the names of the files that an organisation may have, in the folder of its traces."""
    return frozenset(PurePosixPath(rule.pattern).name for rule in _list_of_organization())


def _list_of_organization() -> list[DataFile]:
    return [each for each in list_rules() if each.is_copied and each.pattern.startswith("traces/")]


def list_spool(data_dir: Path) -> list[PurePosixPath]:
    """Return the spool files to copy, as paths in the data directory.

    A file that is renamed while its folder is listed may be missed under both names. A file is renamed
    only once, so folders are listed twice."""
    return sorted({path for _ in range(2) for rule in _SPOOL for path in _find(data_dir, rule)})


def list_organizations(data_dir: Path) -> list[PurePosixPath]:
    """Return the files of all organisations to copy, as paths in the data directory."""
    found = [path for rule in _list_of_organization() for path in _find(data_dir, rule)]
    return sorted(found, key=lambda path: path.parent)  # keeps the order of the rules within each


def list_unknown(data_dir: Path) -> list[PurePosixPath]:
    """Return the files of the data directory that no rule matches."""
    found = (
        PurePosixPath(folder.relative_to(data_dir).as_posix()) / name
        for folder, _, names in data_dir.walk()
        for name in names
    )
    return sorted(path for path in found if find_rule(path) is None)


def find_rule(path: PurePosixPath) -> DataFile | None:
    """Return the rule for a path in the data directory, or None.

    A file that would be copied but has a name that Taximeter never gives has no rule: a restore refuses
    such names."""
    rule = next(
        (rule for rule in list_rules() if _matches(path.parts, rule.pattern.split("/"))), None
    )
    if rule is not None and rule.is_copied and not all(map(is_plain, path.parts)):
        return None
    return rule


def is_plain(name: str) -> bool:
    """Return whether ``name`` is allowed for a file or folder of a data directory or of a backup."""
    return _PART.fullmatch(name) is not None


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if pattern[-1] == "**":
        return len(parts) >= len(pattern) and _matches(parts[: len(pattern) - 1], pattern[:-1])
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def _find(data_dir: Path, rule: DataFile) -> list[PurePosixPath]:
    paths = [
        PurePosixPath(path.relative_to(data_dir).as_posix())
        for path in data_dir.glob(rule.pattern)
        if path.is_file()
    ]
    return [path for path in paths if find_rule(path) is not None]
