"""The checks of databases: their versions, damage, and large logs."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from manage.doctor.findings import Finding
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store import before_release, database
from store.before_release import EarlierVersionError
from store.control import schema as control_schema
from store.migration_status import read_migration_status
from store.migrations import Migrations
from store.traces import schema as traces_schema
from store.traces.paths import find_trace_files

DAMAGE_S = 2.0
LARGE_LOG_BYTES = 256 * 1024 * 1024


def check_databases(settings: Settings) -> Iterator[Finding]:
    found = (
        [(settings.control_path, control_schema.migrations)]
        if settings.control_path.exists()
        else []
    )
    found += [(path, traces_schema.migrations) for path in find_trace_files(settings.data_dir)]
    findings = [_check_database(path, migrations) for path, migrations in found]
    bad = [finding for finding in findings if finding is not None]
    yield from bad
    if bad:
        return
    paths = [path for path, _ in found]
    yield from map(_note_log, filter(_has_large_log, paths))
    damages, unfinished = _find_damages(paths)
    for path, damage in damages.items():
        advice = "`taximeter verify` lists what is damaged; restore a backup if necessary"
        yield Finding("databases", "wrong", f"{path} is damaged: {terminal_line(damage)}", advice)
    if not damages:
        rest = (
            f"; {unfinished} too large to look for damage here, which `taximeter verify` does"
            if unfinished
            else ""
        )
        message = f"{len(found)} found, up to date and undamaged" if found else "none yet"
        yield Finding("databases", "ok", message + rest)


def _find_damages(paths: list[Path]) -> tuple[dict[Path, str], int]:
    """Return the damage of each damaged database, and the number of databases that were not fully checked.

    All of them together are checked for ``DAMAGE_S`` seconds, small ones first."""
    ends_at_s = time.monotonic() + DAMAGE_S
    damages, unfinished = {}, 0
    for path in sorted(paths, key=lambda path: path.stat().st_size):
        try:
            damage = find_damage(path, ends_at_s)
        except (UnfinishedError, sqlite3.OperationalError):
            unfinished += 1
            continue
        if damage is not None:
            damages[path] = damage
    return damages, unfinished


def _has_large_log(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return path.with_name(f"{path.name}-wal").stat().st_size > LARGE_LOG_BYTES
    return False


def _note_log(path: Path) -> Finding:
    message = f"the write-ahead log of {path} has grown large, which makes reading slow"
    advice = (
        "end programs that keep the database open, such as a sqlite3 shell within a transaction"
    )
    return Finding("databases", "note", message, advice)


def _check_database(path: Path, migrations: Migrations) -> Finding | None:
    name = "databases"
    try:
        condition = read_migration_status(path, migrations)
    except EarlierVersionError:
        return Finding(name, "wrong", f"{path} is of an earlier version", before_release.ADVICE)
    except sqlite3.Error as error:
        advice = "`taximeter verify` lists what is damaged; restore the database from a backup if necessary"
        return Finding(name, "wrong", f"{path} cannot be read: {error}", advice)
    if condition.unknown:
        advice = "run the version that changed it, or a newer one"
        return Finding(name, "wrong", f"{path} was changed by a newer Taximeter", advice)
    if condition.pending:
        message = f"{path} has the schema of an older version"
        return Finding(name, "note", message, "it is migrated when it is next written to")
    return None


BUSY_TIMEOUT_S = 5.0
_STEPS = 10_000  # of SQLite's virtual machine, between two looks at the clock


class UnfinishedError(Exception):
    """The check of a database was stopped because its time was over."""


def find_damage(path: Path, ends_at_s: float) -> str | None:
    """Return a description of the damage of a database, or None. The check stops at ``ends_at_s``
    (monotonic).

    Raises UnfinishedError, and sqlite3.OperationalError for a database that cannot be read now."""
    with closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > ends_at_s, _STEPS)
        try:
            found = [row[0] for row in connection.execute("pragma quick_check(3)")]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise UnfinishedError from error
            raise
        except sqlite3.DatabaseError as error:
            return str(error)
    return None if found == ["ok"] else "; ".join(map(str, found))
