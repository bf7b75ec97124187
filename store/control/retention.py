"""The rules of retention, of organisations and of single endpoints, and when each was last applied.

Each value of an endpoint's rule that is set takes precedence over the organisation's. The rule
stays in force if the endpoint is deleted, since its calls stay, and if the endpoint is created
again. Only an organisation has a limit of size, because its endpoints share stored data."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidInputError
from store.control.audit import Activity
from store.control.records import Id, Shared, Table
from store.traces.maintenance.retention import Limits, Pruned, Rules

MAX_DAYS = 36_500
MIN_BYTES = 1_000_000  # an empty database has some hundred thousand
RUN_HOUR = 2  # UTC
NOTICE = timedelta(hours=1)  # at least so long after a change
OF_ORGANIZATION = ""

CHANGED = Activity("retention.change", "changed the retention of")
APPLIED = Activity("retention.run", "applied the retention rules:")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimit:
    """A limit that a rule may set.

    ``name`` is the field of ``Rule``, the column and the name in the API. A limit in days sets the
    field of ``Limits`` called ``removes``, an instant: older data is removed. A limit in bytes is for
    organisations only. ``about`` says what is limited, ``unset`` what applies without the limit.
    ``heading`` is its name in lists, ``option`` the command-line option. ``within`` is the name of a
    limit that must not be exceeded, and the reason."""

    name: str = ""
    unit: Literal["days", "bytes"] = "days"
    removes: str | None = None
    heading: str
    about: str
    unset: str
    option: str
    within: tuple[str, str] | None = None

    @property
    def is_for_endpoints(self) -> bool:
        return self.unit == "days"

    def check(self, value: int) -> None:
        """Check that a value is within bounds. Raises InvalidInputError."""
        if self.unit == "days" and not 1 <= value <= MAX_DAYS:
            raise InvalidInputError(
                f"{self.name} is a number of days from 1 to {format_count(MAX_DAYS)}", self.name
            )
        if self.unit == "bytes" and value < MIN_BYTES:
            raise InvalidInputError(
                f"{self.name} must be at least {format_count(MIN_BYTES)}: less would remove every call",
                self.name,
            )


def _declare(limit: RetentionLimit) -> Any:
    return field(default=None, metadata={"limit": limit})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: which data is kept, and for how long.

    None means no limit or, in the rule of an endpoint, the limit of its organisation. Columns, API,
    command, form and removal are derived from these fields."""

    text_days: int | None = _declare(
        RetentionLimit(
            removes="texts_before",
            heading="Texts",
            about="Days for which bodies and titles are kept",
            unset="as long as their calls",
            option="--text-days",
            within=("entry_days", "a text goes with its call"),
        )
    )
    entry_days: int | None = _declare(
        RetentionLimit(
            removes="entries_before",
            heading="Calls",
            about="Days for which calls are kept",
            unset="for ever",
            option="--call-days",
        )
    )
    max_bytes: int | None = _declare(
        RetentionLimit(
            unit="bytes",
            heading="Database",
            about="Size of the database above which the oldest calls are removed",
            unset="any size",
            option="--max-size",
        )
    )

    @property
    def is_empty(self) -> bool:
        return self == Rule()

    def list_values(self) -> Iterator[tuple[RetentionLimit, int | None]]:
        """Yield each limit with its value."""
        return ((limit, getattr(self, limit.name)) for limit in LIMITS)


LIMITS = tuple(replace(each.metadata["limit"], name=each.name) for each in fields(Rule))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The next run of an organisation's rules, and what the last one removed.

    ``ended_at`` is None before the first run."""

    next_at: str
    ended_at: str | None = None
    entries: int = 0
    texts: int = 0
    bytes_freed: int = 0


RUNS = Table("retention_runs", Run)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule(Rule):
    """A rule with its organisation and endpoint; the endpoint is "" for the rule of an organisation."""

    organization_id: Id
    proxy_endpoint_id: Id | Literal[""]

    @property
    def rule(self) -> Rule:
        return Rule(**{limit.name: value for limit, value in self.list_values()})


RULES = Table(
    "retention_rules",
    StoredRule,
    shared=Shared(key=("organization_id", "proxy_endpoint_id")),
)


def check(rule: Rule) -> None:
    """Check the values of a rule, alone and against each other. Raises InvalidInputError."""
    given = [(limit, value) for limit, value in rule.list_values() if value is not None]
    for limit, value in given:
        limit.check(value)
    for limit, value in given:
        if limit.within is None:
            continue
        other, reason = limit.within
        most = getattr(rule, other)
        if most is not None and value > most:
            raise InvalidInputError(
                f"{limit.name} must not be more than {other}: {reason}", limit.name
            )


def find(db: sqlite3.Connection, organization_id: str, endpoint_id: str = OF_ORGANIZATION) -> Rule:
    """Return the rule of an organisation, or the values that the rule of one endpoint sets."""
    return _read(db, organization_id).get(endpoint_id, Rule())


def write(
    db: sqlite3.Connection,
    organization_id: str,
    rule: Rule,
    now: datetime,
    endpoint_id: str = OF_ORGANIZATION,
) -> None:
    """Store a rule, in place of an earlier one. Raises InvalidInputError."""
    check(rule)
    db.execute(
        "delete from retention_rules where organization_id = ? and proxy_endpoint_id = ?",
        (organization_id, endpoint_id),
    )
    if not rule.is_empty:
        key = {"organization_id": organization_id, "proxy_endpoint_id": endpoint_id}
        RULES.insert(db, key | {limit.name: value for limit, value in rule.list_values()})
    schedule(db, organization_id, now)


def schedule(db: sqlite3.Connection, organization_id: str, now: datetime) -> None:
    """Schedule the first run after a change of an organisation's rules; without rules there is no run."""
    if not _read(db, organization_id):
        db.execute("delete from retention_runs where organization_id = ?", (organization_id,))
        return
    db.execute(
        "insert into retention_runs (organization_id, next_at) values (?, ?)"
        " on conflict (organization_id) do update set next_at = excluded.next_at",
        (organization_id, find_next_run(now)),
    )


def find_next_run(now: datetime) -> str:
    """Return when rules that change at ``now`` are first applied: at night, at least ``NOTICE`` later."""
    earliest = now + NOTICE
    at = earliest.replace(hour=RUN_HOUR, minute=0, second=0, microsecond=0)
    return clock.format_ms(at if at >= earliest else at + timedelta(days=1))


def find_run(db: sqlite3.Connection, organization_id: str) -> Run | None:
    """Return the next and last run of an organisation's rules, or None if it has no rules."""
    return RUNS.find(db, "where organization_id = ?", organization_id)


def list_due(db: sqlite3.Connection, now: datetime) -> list[str]:
    """Return the ids of organisations whose rules are due, the longest overdue first."""
    rows = db.execute(
        "select organization_id from retention_runs where next_at <= ? order by next_at",
        (clock.format_ms(now),),
    )
    return [row[0] for row in rows]


def note_run(db: sqlite3.Connection, organization_id: str, pruned: Pruned, now: datetime) -> None:
    """Note that the rules of an organisation were applied, and schedule the next run."""
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
    """Return the limits that an organisation's rules set at the instant ``at``."""
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
    """Return the rule in force for an endpoint: its own values, otherwise those of ``general``."""
    own = {
        limit.name: value
        for limit, value in rule.list_values()
        if limit.is_for_endpoints and value is not None
    }
    return replace(general, **own)


def _make_limits(rule: Rule, at: datetime) -> Limits:
    return Limits(
        **{
            limit.removes: clock.format_ms(at - timedelta(days=days))
            for limit, days in rule.list_values()
            if limit.removes is not None and days is not None
        }
    )


def _read(db: sqlite3.Connection, organization_id: str) -> dict[str, Rule]:
    stored = RULES.read(db, "where organization_id = ?", organization_id)
    return {each.proxy_endpoint_id: each.rule for each in stored}
