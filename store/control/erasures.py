"""Orders to erase calls: rows of ``erasures``, which the recorder carries out.

An order keeps its criteria until it is done; after that nothing in its row identifies the erased
calls. Its id sorts by time: calls with lower entry ids began before the order."""

import sqlite3
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated

import orjson

from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidInputError, NotFoundError
from store.control.audit import Activity
from store.control.records import Parsed, Table
from store.database import list_columns
from store.traces.maintenance.criteria import Criteria

MAX_CHARS = 1_000

ORDERED = Activity("erase.order", "ordered to erase calls by")
COPY_ERASED = Activity("erase.copy", "erased in one copy by")
ENDED = Activity("erase.end", "finished erasing by")


def _parse_criteria(text: str) -> Criteria:
    return Criteria(**orjson.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An order to erase calls. ``criteria`` is None once the order has ended.

    ``erased_at`` is when all calls recorded by then were erased; ``ended_at`` is when those in flight
    were erased too. ``set_aside`` is the number of spool files that cannot be read and may contain such
    calls."""

    id: str
    organization_id: str
    ordered_at: str
    user_id: str | None
    criteria: Annotated[Criteria | None, Parsed(_parse_criteria)]
    entries: int
    set_aside: int
    erased_at: str | None
    ended_at: str | None

    def find_criteria(self) -> Criteria | None:
        """Return the criteria with ``until`` no later than the order, None once the order has ended.

        Calls that begin after the order are not erased: otherwise the order would never end."""
        if self.criteria is None:
            return None
        until = min(self.criteria.until or self.ordered_at, self.ordered_at)
        return replace(self.criteria, until=until)


TABLE = Table("erasures", Erasure)


def order(
    db: sqlite3.Connection,
    organization_id: str,
    user_id: str | None,
    criteria: Criteria,
    now: datetime,
) -> Erasure:
    """Store and return an order. Raises InvalidInputError."""
    check(criteria)
    id_, ordered_at = clock.new_id(), clock.format_ms(now)
    db.execute(
        "insert into erasures (id, organization_id, ordered_at, user_id, criteria)"
        " values (?, ?, ?, ?, ?)",
        (id_, organization_id, ordered_at, user_id, orjson.dumps(asdict(criteria)).decode()),
    )
    return get(db, organization_id, id_)


def describe(criteria: Criteria) -> str:
    """Return the names of the criteria that are set, for the activity log, without their values."""
    period = {"since", "until"}
    kinds = [name for name in criteria.names if name not in period]
    if period.intersection(criteria.names):
        kinds.append("period")
    return ", ".join(kinds)


def check(criteria: Criteria) -> None:
    """Check that there is at least one criterion, and the lengths of values. Raises InvalidInputError."""
    if not criteria.names:
        raise InvalidInputError(
            "choose what to erase: a session, a credential, a client, an endpoint or a period"
        )
    for name in criteria.names:
        value = getattr(criteria, name)
        if not value or len(value) > MAX_CHARS:
            raise InvalidInputError(
                f"{name} is a text of 1 to {format_count(MAX_CHARS)} characters", name
            )
    since, until = criteria.since, criteria.until
    if since is not None and until is not None and since >= until:
        raise InvalidInputError("from must come before until", "from")


def get(db: sqlite3.Connection, organization_id: str, erasure_id: str) -> Erasure:
    """Return an order of an organisation. Raises NotFoundError."""
    erasure = TABLE.find(db, "where organization_id = ? and id = ?", organization_id, erasure_id)
    if erasure is None:
        raise NotFoundError(f"there is no erasure {erasure_id!r}")
    return erasure


def list_open(db: sqlite3.Connection) -> list[Erasure]:
    """Return the orders that have not ended, of all organisations, the oldest first."""
    return TABLE.read(db, "where ended_at is null order by id")


def list_open_of(db: sqlite3.Connection, organization_id: str) -> list[Erasure]:
    """Return the orders of an organisation that have not ended, the oldest first."""
    return [each for each in list_open(db) if each.organization_id == organization_id]


def list_ended_since(db: sqlite3.Connection, instant: str) -> list[str]:
    """Return the ids of organisations of which an order ended, or a copy was erased, since ``instant``.

    The database may have an older schema."""
    if not list_columns(db, "erasures"):
        return []
    found = "select organization_id from erasures where ended_at >= :instant"
    if list_columns(db, "erasure_copies"):
        found += (
            " union select e.organization_id from erasures as e"
            " join erasure_copies as c on c.erasure_id = e.id where c.erased_at >= :instant"
        )
    return [row[0] for row in db.execute(f"{found} order by 1", {"instant": instant})]


def take_over(
    db: sqlite3.Connection, id_: str, organization_id: str, ordered_at: str, criteria: Criteria
) -> None:
    """Store an order of another node, in place of the row with the same id."""
    db.execute(
        "insert or replace into erasures (id, organization_id, ordered_at, criteria)"
        " values (?, ?, ?, ?)",
        (id_, organization_id, ordered_at, orjson.dumps(asdict(criteria)).decode()),
    )


def note_erased(db: sqlite3.Connection, erasure_id: str, entries: int, now: datetime) -> None:
    """Note that the recorded calls are erased. ``entries`` is the number removed so far, in total."""
    db.execute(
        "update erasures set entries = ?, erased_at = coalesce(erased_at, ?) where id = ?",
        (entries, clock.format_ms(now), erasure_id),
    )


def note_end(db: sqlite3.Connection, erasure_id: str, set_aside: int, now: datetime) -> None:
    """Note that an order is done, and delete its criteria."""
    db.execute(
        "update erasures set set_aside = ?, ended_at = ?, criteria = null where id = ?",
        (set_aside, clock.format_ms(now), erasure_id),
    )
