"""Retention and erasing, for the API, the pages and the command line.

This has the rules, previews of their next run, and orders to erase calls; the recorder carries both
out. As in ``management``, every method stays within the caller's organisation."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runtime import clock
from store.control import annotation_orders, endpoints, erasures, retention
from store.control.audited import audited, require_owner
from store.control.database import ControlDatabase
from store.control.erasures import Erasure
from store.control.people import Caller
from store.control.retention import OF_ORGANIZATION, Rule, Run
from store.copies import Progress, find_copies
from store.traces.calls.credential_accounts import list_fingerprints, read_accounts_of
from store.traces.maintenance import erasing
from store.traces.maintenance.criteria import Criteria
from store.traces.maintenance.retention import Rules
from store.traces.maintenance.retention_preview import Preview, read_preview
from store.traces.paths import trace_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """The retention rule of an organisation, its latest and next run, and a preview of the next one.

    ``run`` is None if neither the organisation nor its endpoints have rules, ``preview`` if the traces
    cannot be read now."""

    rule: Rule
    run: Run | None
    preview: Preview | None


@dataclass(frozen=True, slots=True)
class DataRemoval:
    """The rules and orders of ``control.db``. Every method may also raise sqlite3.Error."""

    _control: ControlDatabase
    _data_dir: Path
    _now: Callable[[], datetime] = clock.now

    def read_rule(self, caller: Caller, id_or_slug: str | None = None) -> Rule:
        """Return the rule of the organisation, or that of one endpoint. Raises NotFoundError."""
        with self._control.reading() as db:
            endpoint_id = OF_ORGANIZATION
            if id_or_slug is not None:
                endpoint_id = endpoints.get(db, caller.organization_id, id_or_slug).id
            return retention.find(db, caller.organization_id, endpoint_id)

    def read_state(self, caller: Caller) -> RetentionState:
        """Return the rule of the organisation, its runs and the preview of the next one."""
        with self._control.reading() as db:
            rule = retention.find(db, caller.organization_id)
            run = retention.find_run(db, caller.organization_id)
            rules = Rules()
            if run is not None:
                at = clock.parse_instant(run.next_at)
                rules = retention.find_rules(db, caller.organization_id, at)
        try:
            preview = read_preview(trace_path(self._data_dir, caller.organization_id), rules)
        except sqlite3.Error:  # rules can be set all the same
            preview = None
        return RetentionState(rule=rule, run=run, preview=preview)

    def write_rule(self, caller: Caller, rule: Rule, id_or_slug: str | None = None) -> None:
        """Store a rule of the organisation or of one endpoint, in place of an earlier one.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError, NotFoundError."""
        require_owner(caller, "change what is kept")
        with audited(self._control, caller) as (db, note):
            endpoint_id, slug = OF_ORGANIZATION, "the organisation"
            if id_or_slug is not None:
                endpoint = endpoints.get(db, caller.organization_id, id_or_slug)
                endpoint_id, slug = endpoint.id, endpoint.slug
            retention.write(db, caller.organization_id, rule, self._now(), endpoint_id)
            details = {"slug": slug} | {
                limit.name: _as_detail(value) for limit, value in rule.list_values()
            }
            note(retention.CHANGED, endpoint_id or caller.organization_id, details)

    def count_calls(self, caller: Caller, criteria: Criteria) -> int:
        """Return how many recorded calls of this data directory match ``criteria`` now.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError."""
        require_owner(caller, "erase calls")
        erasures.check(criteria)
        return erasing.count_calls(trace_path(self._data_dir, caller.organization_id), criteria)

    def list_fingerprints(self, caller: Caller, criteria: Criteria) -> Sequence[str]:
        """Return the fingerprints of all credentials of the account that the order's credential belongs to.

        Empty if the order names no credential. Raises sqlite3.Error."""
        if criteria.credential is None:
            return ()
        accounts = read_accounts_of(trace_path(self._data_dir, caller.organization_id))
        return list_fingerprints(accounts, criteria.credential)

    def order_erasure(self, caller: Caller, criteria: Criteria) -> Erasure:
        """Order calls to be erased. The recorder does it, or ``store.erasure_work`` if no recorder runs.

        If there are several copies of the calls, the recorder of each does it. Raises ForbiddenError for
        a caller who is not an owner, InvalidInputError."""
        require_owner(caller, "erase calls")
        with audited(self._control, caller) as (db, note):
            user_id = None if caller.is_operator else caller.user_id
            erasure = erasures.order(db, caller.organization_id, user_id, criteria, self._now())
            annotation_orders.forget_of(db, caller.organization_id, self._now())
            copies = find_copies(self._data_dir)
            if copies is not None:
                copies.note_order(erasure, db)
            note(erasures.ORDERED, erasure.id, {"what": erasures.describe(criteria)})
            return erasure

    def get_erasure(self, caller: Caller, erasure_id: str) -> Progress:
        """Return the progress of an order to erase calls. Raises ForbiddenError, NotFoundError."""
        require_owner(caller, "erase calls")
        with self._control.reading() as db:
            erasure = erasures.get(db, caller.organization_id, erasure_id)
            return self._find_progress(db, erasure)

    def list_erasures(self, caller: Caller) -> list[Progress]:
        """Return the open orders to erase calls, oldest first. Raises ForbiddenError."""
        require_owner(caller, "erase calls")
        with self._control.reading() as db:
            orders = erasures.list_open_of(db, caller.organization_id)
            return [self._find_progress(db, each) for each in orders]

    def _find_progress(self, db: sqlite3.Connection, erasure: Erasure) -> Progress:
        copies = find_copies(self._data_dir)
        if copies is None:
            return Progress(erasure=erasure)
        return copies.find_progress(erasure, db)


def _as_detail(number: int | None) -> str | None:
    return None if number is None else str(number)
