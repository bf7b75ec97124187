"""The files of a data directory, and what a backup does with each of them.

Calls go from the spool to the traces, and what they refer to is in ``control.db`` before them. So the order
of copying decides what a backup may lack: first comes what waits in the spool, then each organisation,
``control.db`` last.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from extensions.credentials_in_calls.findings import NAME as SECRETS
from extensions.reconcile.result_file import NAME as RECONCILIATION
from store.spool.format import DONE, LOCK, OPEN, RESERVE, UNREADABLE
from store.spool.free_files import FREE

type Treatment = Literal["copied as a database", "copied", "copied first", "left out"]

CONTROL = "control.db"
TRACES = "traces.db"
RESTORING = "taximeter-restore"
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~@+=-]{0,199}")


class Rule(NamedTuple):
    """A rule for the files whose path in the data directory matches a pattern, part by part."""

    pattern: str
    treatment: Treatment
    about: str

    @property
    def is_copied(self) -> bool:
        """Return whether a backup has these files."""
        return self.treatment != "left out"


# The first that matches holds. Within an organisation this is also the order of copying.
RULES = (
    Rule(f"spool/{UNREADABLE}/*", "copied first", "Calls that could not be recorded."),
    Rule(f"spool/*/*{DONE}", "copied first", "Calls that have ended and are not recorded yet."),
    Rule(
        f"spool/*/*{OPEN}",
        "copied first",
        "Calls in flight, as far as they came: restored, they are calls that a restart interrupted.",
    ),
    Rule(
        f"traces/*/{SECRETS}",
        "copied as a database",
        "Findings of credentials. Copied before the traces, so that none is of a call that the copy lacks.",
    ),
    Rule(f"traces/*/{RECONCILIATION}", "copied", "The last reconciliation."),
    Rule(
        f"traces/*/{TRACES}",
        "copied as a database",
        "Calls with their bodies, sums, and the index of texts.",
    ),
    Rule(
        CONTROL,
        "copied as a database",
        "Organisations, people, proxy endpoints, hashes of keys, the activity log, and the keys that"
        " fingerprints of credentials are made with. Copied last: each call in the backup has its"
        " endpoint there.",
    ),
    Rule("*.db-wal", "left out", "The copy of the database has what is in it."),
    Rule("traces/*/*.db-wal", "left out", "The same."),
    Rule("*.db-shm", "left out", "SQLite makes it again."),
    Rule("traces/*/*.db-shm", "left out", "The same."),
    Rule(f"spool/*/{LOCK}", "left out", "A lock of a running process."),
    Rule(f"spool/*/{RESERVE}", "left out", "Room for when the disk is full, without content."),
    Rule(f"spool/*/{FREE}/*", "left out", "Emptied files, for other calls."),
    Rule("recorder.reserve", "left out", "The same."),
    Rule("*.lock", "left out", "Locks of running processes."),
    Rule("*.json", "left out", "What running processes say of themselves."),
    Rule("*.new", "left out", "Drafts of such files."),
    Rule("traces/*/*.new", "left out", "The same."),
    Rule("node.id", "left out", "The name of a recorder node: one that is restored has its own."),
    Rule("extensions.db", "left out", "Up to which call extensions were told: they begin anew."),
    Rule("run.log", "left out", "What a service that `taximeter run` started has printed."),
    Rule("incoming/**", "left out", "A bucket that is being moved here from another node."),
    Rule(f"{RESTORING}/**", "left out", "What a restore that was interrupted has left."),
    Rule("mitmproxy/**", "left out", "The folder of mitmproxy, which nothing is kept in."),
)


def list_spool(data_dir: Path) -> list[PurePosixPath]:
    """Return the spool files to copy.

    A file that is renamed while its folder is listed may be missed under both names, so folders are
    listed twice: a file is renamed only once."""
    rules = [rule for rule in RULES if rule.treatment == "copied first"]
    return sorted({path for _ in range(2) for rule in rules for path in _find(data_dir, rule)})


def list_organizations(data_dir: Path) -> list[PurePosixPath]:
    """Return the files of all organisations to copy."""
    rules = [rule for rule in RULES if rule.pattern.startswith("traces/") and rule.is_copied]
    found = [path for rule in rules for path in _find(data_dir, rule)]
    return sorted(found, key=lambda path: path.parent)  # keeps the order of the rules within each


def list_unknown(data_dir: Path) -> list[PurePosixPath]:
    """Return the files that no rule is about."""
    found = (
        PurePosixPath(folder.relative_to(data_dir).as_posix()) / name
        for folder, _, names in data_dir.walk()
        for name in names
    )
    return sorted(path for path in found if find_rule(path) is None)


def find_rule(path: PurePosixPath) -> Rule | None:
    """Return the rule about a path in the data directory.

    None is about a file to copy under a name that Taximeter gives to none: a restore refuses these."""
    rule = next((rule for rule in RULES if _matches(path.parts, rule.pattern.split("/"))), None)
    if rule is not None and rule.is_copied and not all(map(is_plain, path.parts)):
        return None
    return rule


def is_plain(name: str) -> bool:
    """Return whether a file or folder of a data directory, or of a backup, may have this name."""
    return _PART.fullmatch(name) is not None


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if pattern[-1] == "**":
        return len(parts) >= len(pattern) and _matches(parts[: len(pattern) - 1], pattern[:-1])
    return len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))


def _find(data_dir: Path, rule: Rule) -> list[PurePosixPath]:
    paths = [
        PurePosixPath(path.relative_to(data_dir).as_posix())
        for path in data_dir.glob(rule.pattern)
        if path.is_file()
    ]
    return [path for path in paths if find_rule(path) is not None]
