"""The rules of retention, of organisations and of single endpoints, and when each was last applied.

A rule of an endpoint counts where it has a value, and that of its organisation otherwise; it stays in force
when the endpoint is deleted, as its calls stay, and when its slug is made again. The size is limited for the
organisation alone: its endpoints share what they have in common.
"""

import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidInputError
from store.traces.maintenance.retention import Limits, Pruned, Rules

MAX_DAYS = 36_500
MIN_BYTES = 1_000_000  # an empty database has some hundred thousand
RUN_HOUR = 2  # UTC
NOTICE = timedelta(hours=1)  # at least so long after a change
OF_ORGANIZATION = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: the days for which texts and calls are kept, and the size of the database. None: no limit,
    and of an endpoint that of its organisation."""

    text_days: int | None = None
    entry_days: int | None = None
    max_bytes: int | None = None

    @property
    def is_empty(self) -> bool:
        return self == Rule()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The runs of an organisation: when the next one is, and what the last one removed; ``ended_at`` is
    None before the first."""

    next_at: str
    ended_at: str | None = None
    entries: int = 0
    texts: int = 0
    bytes_freed: int = 0


def check(rule: Rule) -> None:
    """Check the values of a rule. Raises InvalidInputError."""
    for name, days in (("text_days", rule.text_days), ("entry_days", rule.entry_days)):
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise InvalidInputError(
                f"{name} is a number of days from 1 to {format_count(MAX_DAYS)}", name
            )
    if rule.text_days is not None and rule.entry_days is not None:  # noqa: SIM102 - one thing at a time
        if rule.text_days > rule.entry_days:
            raise InvalidInputError(
                "text_days must not be more than entry_days: a text goes with its call", "text_days"
            )
    if rule.max_bytes is not None and rule.max_bytes < MIN_BYTES:
        raise InvalidInputError(
            f"max_bytes must be at least {format_count(MIN_BYTES)}: less would remove every call",
            "max_bytes",
        )


def find(db: sqlite3.Connection, organization_id: str, endpoint_id: str = OF_ORGANIZATION) -> Rule:
    """Return the rule of an organisation, or of one of its endpoints alone."""
    return _read(db, organization_id).get(endpoint_id, Rule())


def write(
    db: sqlite3.Connection,
    organization_id: str,
    rule: Rule,
    now: datetime,
    endpoint_id: str = OF_ORGANIZATION,
) -> None:
    """Store a rule in the place of the one before. Raises InvalidInputError."""
    check(rule)
    if rule.is_empty:
        db.execute(
            "delete from retention_rules where organization_id = ? and proxy_endpoint_id = ?",
            (organization_id, endpoint_id),
        )
    else:
        db.execute(
            "insert or replace into retention_rules values (?, ?, ?, ?, ?)",
            (organization_id, endpoint_id, rule.text_days, rule.entry_days, rule.max_bytes),
        )
    schedule(db, organization_id, now)


def schedule(db: sqlite3.Connection, organization_id: str, now: datetime) -> None:
    """Note when the rules of an organisation, which have changed, are applied first; without rules never."""
    if not _read(db, organization_id):
        db.execute("delete from retention_runs where organization_id = ?", (organization_id,))
        return
    db.execute(
        "insert into retention_runs (organization_id, next_at) values (?, ?)"
        " on conflict (organization_id) do update set next_at = excluded.next_at",
        (organization_id, find_next_run(now)),
    )


def find_next_run(now: datetime) -> str:
    """Return when rules that change now are applied first: at night, and not within the hour."""
    earliest = now + NOTICE
    at = earliest.replace(hour=RUN_HOUR, minute=0, second=0, microsecond=0)
    return clock.format_ms(at if at >= earliest else at + timedelta(days=1))


def find_run(db: sqlite3.Connection, organization_id: str) -> Run | None:
    """Return the runs of an organisation, None where it has no rules."""
    row = db.execute(
        "select next_at, ended_at, entries, texts, bytes_freed from retention_runs"
        " where organization_id = ?",
        (organization_id,),
    ).fetchone()
    if row is None:
        return None
    next_at, ended_at, entries, texts, bytes_freed = row
    return Run(
        next_at=next_at, ended_at=ended_at, entries=entries, texts=texts, bytes_freed=bytes_freed
    )


def list_due(db: sqlite3.Connection, now: datetime) -> list[str]:
    """Return the organisations whose rules are to be applied now, the one that waits longest first."""
    rows = db.execute(
        "select organization_id from retention_runs where next_at <= ? order by next_at",
        (clock.format_ms(now),),
    )
    return [row[0] for row in rows]


def note_run(db: sqlite3.Connection, organization_id: str, pruned: Pruned, now: datetime) -> None:
    """Note that the rules of an organisation were applied, and when they are next."""
    db.execute(
        "update retention_runs set next_at = ?, ended_at = ?, entries = ?, texts = ?, bytes_freed = ?"
        " where organization_id = ?",
        (
            find_next_run(now),
            clock.format_ms(now),
            pruned.entries,
            pruned.texts,
            pruned.bytes_freed,
            organization_id,
        ),
    )


def find_rules(db: sqlite3.Connection, organization_id: str, at: datetime) -> Rules:
    """Return what is to be removed by the rules of an organisation at a point in time."""
    rules = _read(db, organization_id)
    general = rules.pop(OF_ORGANIZATION, Rule())
    return Rules(
        limits=_make_limits(general, at),
        by_endpoint={
            endpoint_id: _make_limits(combine(rule, general), at)
            for endpoint_id, rule in rules.items()
        },
        max_bytes=general.max_bytes,
    )


def combine(rule: Rule, general: Rule) -> Rule:
    """Return the rule that is in force for an endpoint."""
    return replace(
        general,
        text_days=general.text_days if rule.text_days is None else rule.text_days,
        entry_days=general.entry_days if rule.entry_days is None else rule.entry_days,
    )


def _make_limits(rule: Rule, at: datetime) -> Limits:
    return Limits(
        entries_before=_before(rule.entry_days, at), texts_before=_before(rule.text_days, at)
    )


def _before(days: int | None, at: datetime) -> str | None:
    return None if days is None else clock.format_ms(at - timedelta(days=days))


def _read(db: sqlite3.Connection, organization_id: str) -> dict[str, Rule]:
    rows = db.execute(
        "select proxy_endpoint_id, text_days, entry_days, max_bytes from retention_rules"
        " where organization_id = ?",
        (organization_id,),
    )
    return {
        endpoint_id: Rule(text_days=text_days, entry_days=entry_days, max_bytes=max_bytes)
        for endpoint_id, text_days, entry_days, max_bytes in rows
    }
