"""``control.db``: organisations, people, proxy endpoints. Small, shared, read by every process.

``ControlDatabase`` is the only writer; the proxy reads slugs through ``SlugDirectory``, which keeps
one read-only connection and one prepared statement.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from store import clock, database, schema, slugs
from store.settings import Streaming

BUSY_TIMEOUT_MS = 5000  # people wait for each other, if they must

type Role = Literal["owner", "member"]


class ControlError(Exception):
    """What a person asked for and cannot have. Its message says what to do instead."""


class InvalidSlugError(ControlError):
    """The text is not a slug."""


class SlugTakenError(ControlError):
    """The slug exists, or is reserved for another organisation."""


class NotFoundError(ControlError):
    """No such thing in this organisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: str
    name: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyEndpoint:
    """``streaming`` is None where the endpoint follows the service's own setting."""

    id: str
    organization_id: str
    name: str
    slug: str
    streaming: Streaming | None
    metadata_only: bool
    created_at: str


_ENDPOINT_COLUMNS = "id, organization_id, name, slug, streaming, metadata_only, created_at"


def _endpoint(row: tuple[str, str, str, str, Streaming | None, int, str]) -> ProxyEndpoint:
    id_, organization_id, name, slug, streaming, metadata_only, created_at = row
    return ProxyEndpoint(
        id=id_,
        organization_id=organization_id,
        name=name,
        slug=slug,
        streaming=streaming,
        metadata_only=bool(metadata_only),
        created_at=created_at,
    )


class ControlDatabase:
    """One connection that may write. Raises sqlite3.Error where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        """Make and migrate it if need be."""
        self._db = database.open_database(
            path, schema.control, synchronous="NORMAL", busy_timeout_ms=BUSY_TIMEOUT_MS
        )
        self._db.execute("pragma foreign_keys = on")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is done within is done, or none of it."""
        with database.immediate(self._db):
            yield self._db

    def set_up(self) -> bool:
        """Make what a first start needs: an organisation, a local user, the endpoint ``default``.

        Returns whether anything had to be made; a second call is a no-op."""
        with self.transaction() as db:
            if db.execute("select 1 from organizations").fetchone():
                return False
            organization_id, user_id, now = clock.new_id(), clock.new_id(), _now()
            db.execute("insert into organizations values (?, 'Local', ?)", (organization_id, now))
            db.execute("insert into users values (?, null, ?)", (user_id, now))
            db.execute(
                "insert into memberships values (?, ?, 'owner', ?)", (organization_id, user_id, now)
            )
            _insert_endpoint(db, organization_id, "default", "default", None, metadata_only=False)
            return True

    def get_local_organization(self) -> Organization:
        """The first organisation, which the command line acts for. Raises NotFoundError."""
        row = self._db.execute(
            "select id, name, created_at from organizations order by created_at, id limit 1"
        ).fetchone()
        if row is None:
            raise NotFoundError("nothing has been set up here yet; start `taximeter up` once")
        return Organization(id=row[0], name=row[1], created_at=row[2])

    def find_user(self, email: str | None) -> str | None:
        """The id of the user with this address; without one, of the local user."""
        row = self._db.execute(
            "select id from users where email is ? order by created_at, id limit 1", (email,)
        ).fetchone()
        return None if row is None else str(row[0])

    def get_secret(self, name: str) -> bytes:
        """A random key of 32 bytes, made when it is first asked for."""
        with self.transaction() as db:
            db.execute(
                "insert or ignore into secrets values (?, ?)", (name, secrets.token_bytes(32))
            )
            value: bytes = db.execute(
                "select value from secrets where name = ?", (name,)
            ).fetchone()[0]
            return value

    def list_endpoints(self, organization_id: str) -> list[ProxyEndpoint]:
        """Newest first."""
        rows = self._db.execute(
            f"select {_ENDPOINT_COLUMNS} from proxy_endpoints"  # noqa: S608
            " where organization_id = ? and deleted_at is null order by created_at desc, id desc",
            (organization_id,),
        )
        return [_endpoint(row) for row in rows]

    def create_endpoint(
        self,
        organization_id: str,
        name: str,
        slug: str | None = None,
        streaming: Streaming | None = None,
        *,
        metadata_only: bool = False,
    ) -> ProxyEndpoint:
        """Make an endpoint; without ``slug`` one is made from the name, with a suffix if need be.

        Raises InvalidSlugError, SlugTakenError."""
        if not name.strip():
            raise ControlError("an endpoint needs a name")
        if slug is not None and not slugs.is_slug(slug):
            raise InvalidSlugError(
                f"{slug!r} is no slug: 1 to {slugs.MAX_LENGTH} lowercase letters and digits,"
                " with single hyphens inside"
            )
        with self.transaction() as db:
            if slug is None:
                slug = slugs.make_slug(name)
                while _is_taken(db, slug, organization_id):
                    slug = slugs.add_suffix(slugs.make_slug(name))
            elif _is_taken(db, slug, organization_id):
                raise SlugTakenError(f"the slug {slug!r} is taken; choose another")
            return _insert_endpoint(
                db, organization_id, name, slug, streaming, metadata_only=metadata_only
            )

    def delete_endpoint(self, organization_id: str, endpoint_id: str) -> ProxyEndpoint:
        """Delete by id or slug. Its traces stay, its slug stays reserved. Raises NotFoundError."""
        with self.transaction() as db:
            row = db.execute(
                f"select {_ENDPOINT_COLUMNS} from proxy_endpoints"  # noqa: S608
                " where organization_id = ? and (id = ? or slug = ?) and deleted_at is null",
                (organization_id, endpoint_id, endpoint_id),
            ).fetchone()
            if row is None:
                raise NotFoundError(
                    f"there is no proxy endpoint {endpoint_id!r}; `taximeter endpoints list` shows them"
                )
            db.execute("update proxy_endpoints set deleted_at = ? where id = ?", (_now(), row[0]))
            return _endpoint(row)


class SlugDirectory:
    """What the proxy asks for every request: who owns this slug?

    One indexed read each time, so that a created slug works and a deleted one fails at once. Only
    while the file cannot be read does the last good answer stand in for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._last_good: dict[str, ProxyEndpoint] = {}

    def find(self, slug: str) -> ProxyEndpoint | None:
        """Raises sqlite3.Error when the file cannot be read and the slug was never seen."""
        try:
            endpoint = self._read(slug)
        except sqlite3.Error:
            self.close()
            if slug in self._last_good:
                return self._last_good[slug]
            raise
        if endpoint is None:
            self._last_good.pop(slug, None)
        else:
            self._last_good[slug] = endpoint
        return endpoint

    def _read(self, slug: str) -> ProxyEndpoint | None:
        if self._db is None:
            self._db = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=0.05,
                isolation_level=None,
            )
        row = self._db.execute(
            f"select {_ENDPOINT_COLUMNS} from proxy_endpoints"  # noqa: S608
            " where slug = ? and deleted_at is null",
            (slug,),
        ).fetchone()
        return _endpoint(row) if row else None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _is_taken(db: sqlite3.Connection, slug: str, organization_id: str) -> bool:
    return (
        db.execute(
            "select 1 from proxy_endpoints"
            " where slug = ? and (deleted_at is null or organization_id <> ?)",
            (slug, organization_id),
        ).fetchone()
        is not None
    )


def _insert_endpoint(
    db: sqlite3.Connection,
    organization_id: str,
    name: str,
    slug: str,
    streaming: Streaming | None,
    *,
    metadata_only: bool,
) -> ProxyEndpoint:
    row = (clock.new_id(), organization_id, name, slug, streaming, int(metadata_only), _now())
    db.execute(
        f"insert into proxy_endpoints ({_ENDPOINT_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        row,
    )
    return _endpoint(row)


def _now() -> str:
    return clock.format_ms(clock.now())
