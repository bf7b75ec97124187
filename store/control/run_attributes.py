"""The attributes of runs (user, project and tags of their calls): rows of ``run_attributes``.

``taximeter run`` stores them once, before its client starts, and the base URL of the client names
the run. So they apply to every call, whatever the client can be configured with. The recorder
copies them into the columns of each call, so later the row is not needed."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from metering import attribution
from metering.attribution import Attribution
from runtime import clock
from runtime.credential_texts import drop_credential
from runtime.errors import ConflictError, InvalidInputError
from store.control.records import Instant, Line, Shared, Table

# Of an organisation the newest are kept: a run is in use for hours, and each names somebody.
MAX_RUNS, KEPT = 2_000, timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttributes:
    """The attributes of a run. ``tags`` is a JSON list, None if there are none."""

    organization_id: Line
    run_id: Line
    attributed_user: Line | None
    project: Line | None
    tags: str | None
    created_at: Instant


TABLE = Table("run_attributes", RunAttributes, shared=Shared(key=("organization_id", "run_id")))


def check(user: str | None, project: str | None, tags: Iterable[str]) -> Attribution:
    """Return the attributes of a run, normalised. Raises InvalidInputError, which states the violated
    rule."""
    return Attribution(
        user=None if user is None else _check_name("user", user),
        project=None if project is None else _check_name("project", project),
        tags=_check_tags(tags),
    )


def _check_name(kind: Literal["user", "project"], value: str) -> str:
    with _saying(kind):
        return _refuse_credential(attribution.check_part(kind, value).value)


def _check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    with _saying("tags"):
        return tuple(_refuse_credential(tag) for tag in attribution.check_tags(tags))


@contextmanager
def _saying(field: str) -> Iterator[None]:
    """Convert a ValueError into an InvalidInputError about ``field``."""
    try:
        yield
    except ValueError as error:
        raise InvalidInputError(str(error), field) from error


def _refuse_credential(value: str) -> str:
    if drop_credential(value) is None:
        raise ValueError("this looks like a credential, which is never stored")
    return value


def write(
    db: sqlite3.Connection, organization_id: str, run_id: str, given: Attribution, now: datetime
) -> None:
    """Store the attributes of a run, and delete those of the oldest runs.

    Raises ConflictError if the run has attributes already, since calls may have been stored with them."""
    if find(db, organization_id, run_id) is not None:
        raise ConflictError(f"the run {run_id} has its attributes already; choose another id")
    row = RunAttributes(
        organization_id=organization_id,
        run_id=run_id,
        attributed_user=given.user,
        project=given.project,
        tags=attribution.write_tags(given.tags),
        created_at=clock.format_ms(now),
    )
    TABLE.insert(db, row)
    db.execute("delete from run_attributes where created_at < ?", (clock.format_ms(now - KEPT),))
    db.execute(
        "delete from run_attributes where organization_id = ?1 and run_id in ("
        "select run_id from run_attributes where organization_id = ?1"
        " order by created_at desc limit -1 offset ?2)",
        (organization_id, MAX_RUNS),
    )


def find(db: sqlite3.Connection, organization_id: str, run_id: str) -> Attribution | None:
    """Return the attributes of a run, or None."""
    row = TABLE.find(db, "where organization_id = ? and run_id = ?", organization_id, run_id)
    if row is None:
        return None
    return attribution.keep_valid(row.attributed_user, row.project, row.tags)
