"""``control.db``: organisations, users, proxy endpoints and keys. Small, and read by every process.

``ControlDatabase`` is the only writer. The modules beside it (``endpoints``, ``people``,
``api_keys``, ``audit``) do the work within its transactions. The proxy looks slugs up through
``SlugDirectory``, which keeps one read-only connection and one prepared statement.
"""

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from runtime.errors import ControlError, InvalidSlugError, NotFoundError, SlugTakenError
from store import database
from store.control import api_keys, endpoints, people, schema
from store.control.endpoints import ProxyEndpoint
from store.control.people import Organization, Role
from store.control.records import Shared, Table

__all__ = [
    "ControlDatabase",
    "ControlError",
    "InvalidSlugError",
    "NotFoundError",
    "Organization",
    "ProxyEndpoint",
    "Role",
    "SlugDirectory",
    "SlugTakenError",
]

# The secret with which upstream credentials are hashed.
FINGERPRINT_KEY: Literal["credential fingerprint"] = "credential fingerprint"
_FIND_SLUG = f"{endpoints.TABLE.select} where slug = ? and deleted_at is null"
_FIND_ANY_SLUG = "select 1 from proxy_endpoints where deleted_at is null limit 1"
BUSY_TIMEOUT_MS = 5000  # people wait for each other, if they must


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A key that all machines of a service share; other keys stay on their machine."""

    name: Literal["credential fingerprint"]
    value: bytes


SECRETS = Table(
    "secrets", Secret, shared=Shared(key=("name",), where=f"name = '{FINGERPRINT_KEY}'")
)


class ControlDatabase:
    """A connection to ``control.db`` that may write. Raises sqlite3.Error where the file cannot be
    used."""

    def __init__(
        self, path: Path, *, any_thread: bool = False, checks_references: bool = True
    ) -> None:
        """Open the database; create and migrate it if needed.

        With ``any_thread`` the connection may be passed between threads, but not used by two at once.
        Without ``checks_references`` rows may refer to rows that do not exist, as in a part of another
        database."""
        self._db = database.open_database(
            path,
            schema.migrations,
            synchronous="NORMAL",
            busy_timeout_ms=BUSY_TIMEOUT_MS,
            any_thread=any_thread,
        )
        self._db.execute(f"pragma foreign_keys = {'on' if checks_references else 'off'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a transaction that holds the write lock; it is rolled back on any exception.

        Without ``wait``, raises sqlite3.OperationalError immediately if another process is writing."""
        if not wait:
            self._db.execute("pragma busy_timeout = 0")
        try:
            with database.immediate(self._db):
                yield self._db
        finally:
            if not wait:
                self._db.execute(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction for several reads that see the same state; never waits for a writer.

        Inside another transaction the reads see that transaction's state."""
        if self._db.in_transaction:
            yield self._db
            return
        with database.snapshot(self._db):
            yield self._db

    def empty_log(self) -> bool:
        """Truncate the write-ahead log; return whether that was possible."""
        return database.empty_log(self._db)

    def set_up(self) -> bool:
        """Create what a first start needs: an organisation, a local user, the endpoint ``default``.

        Returns whether anything was created; a second call does nothing."""
        with self.transaction() as db:
            if db.execute("select 1 from organizations").fetchone():
                return False
            organization = people.create_organization(db, "Local")
            people.join(db, organization.id, people.create_user(db, None), "owner")
            endpoints.create(db, organization.id, "default", "default")
            return True

    def get_local_organization(self) -> Organization:
        """Return the first organisation, which the command line acts for. Raises NotFoundError."""
        organization = people.find_first_organization(self._db)
        if organization is None:
            raise NotFoundError(
                "this data directory has not been set up; start `taximeter up` once"
            )
        return organization

    def find_user(self, email: str | None) -> str | None:
        """Return the id of the user with this address, or of the local user if ``email`` is None. None if
        there is no such user."""
        return people.find_user(self._db, email)

    def get_secret(self, name: str) -> bytes:
        """Return the random key (32 bytes) called ``name``, creating it at its first use."""
        with self.transaction() as db:
            db.execute(
                "insert or ignore into secrets values (?, ?)", (name, secrets.token_bytes(32))
            )
            value: bytes = db.execute(
                "select value from secrets where name = ?", (name,)
            ).fetchone()[0]
            return value

    def find_secret(self, name: str) -> bytes | None:
        """Return the key called ``name``, or None."""
        row = self._db.execute("select value from secrets where name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def put_secret(self, name: str, value: bytes) -> None:
        """Store a key in place of an earlier one."""
        with self.transaction() as db:
            db.execute("insert or replace into secrets values (?, ?)", (name, value))

    def list_endpoints(self, organization_id: str) -> Sequence[ProxyEndpoint]:
        """Return all endpoints of an organisation, newest first, for the service itself."""
        return endpoints.list_after(self._db, organization_id)


class SlugDirectory:
    """Look-ups that the proxy makes for each request: the endpoint of a slug, and service API keys.

    Each is one indexed read, so a created slug works and a deleted one is refused immediately. Only
    while the file cannot be read is the last known result used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._last_good: dict[str, tuple[tuple[object, ...], ProxyEndpoint]] = {}  # with its row
        self._inode: int | None = None

    def find(self, slug: str) -> ProxyEndpoint | None:
        """Return the endpoint with this slug, or None. Raises sqlite3.Error if the file cannot be read and
        the slug was never read before."""
        try:
            row = self._connect().execute(_FIND_SLUG, (slug,)).fetchone()
        except sqlite3.Error:
            self.close()
            if slug in self._last_good:
                return self._last_good[slug][1]
            raise
        if row is None:
            self._last_good.pop(slug, None)
            return None
        last = self._last_good.get(slug)
        if last is None or last[0] != row:
            last = self._last_good[slug] = row, endpoints.TABLE.make(row)
        return last[1]

    def has_any(self) -> bool:
        """Return whether there is any slug. Raises sqlite3.Error if the file cannot be read."""
        try:
            return self._connect().execute(_FIND_ANY_SLUG).fetchone() is not None
        except sqlite3.Error:
            self.close()
            raise

    def knows_key(self, raw: str) -> bool:
        """Return whether ``raw`` is a service API key of this service. Raises sqlite3.Error if the file
        cannot be read."""
        try:
            return api_keys.is_known(self._connect(), raw)
        except sqlite3.Error:
            self.close()
            raise

    def find_fingerprint_key(self) -> bytes | None:
        """Return the key with which fingerprints are made. None if the file has none or cannot be read."""
        try:
            row = (
                self._connect()
                .execute("select value from secrets where name = ?", (FINGERPRINT_KEY,))
                .fetchone()
            )
        except sqlite3.Error:
            self.close()
            return None
        return None if row is None else row[0]

    def _connect(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = database.open_readonly(self._path, busy_timeout_s=0.05)
        return self._db

    def notice_replacement(self) -> None:
        """Open the file anew if another one has replaced it, as after restoring a backup."""
        with suppress(OSError):
            inode = self._path.stat().st_ino
            if inode != self._inode:
                self._inode = inode
                self.close()

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
