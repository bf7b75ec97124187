"""Retention and erasing, for the API, the pages and the command line.

Here are the rules, what they are going to remove, and orders to erase calls. The recorder carries both out.
As in ``management``, every method stays within the caller's organisation.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from extensions.cluster import erasure_copies
from extensions.cluster.erasure_copies import OF_PROXY, ErasureCopy
from extensions.cluster.page_nodes import PageNodes
from runtime import clock
from store.control import endpoints, erasures, retention
from store.control.audited import audited, require_owner
from store.control.database import ControlDatabase
from store.control.erasures import Erasure
from store.control.people import Caller
from store.control.retention import OF_ORGANIZATION, Rule, Run
from store.traces.maintenance import erasing
from store.traces.maintenance.erasing import Criteria
from store.traces.maintenance.retention import Rules
from store.traces.maintenance.retention_preview import Preview, read_preview
from store.traces.paths import trace_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """The rule of an organisation, its runs and what the next one removes.

    ``run`` is None where neither it nor its endpoints have rules, ``preview`` where the traces cannot be read
    now."""

    rule: Rule
    run: Run | None
    preview: Preview | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """The state of an order in a copy.

    Its node has erased what it had at ``erased_at``, and what came later by ``settled_at``. ``address`` and
    ``is_alive`` are of the node, as far as this one knows."""

    copy: str
    node: str
    address: str | None
    is_alive: bool
    entries: int
    erased_at: str | None
    settled_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of an order.

    In a cluster ``copies`` has the nodes that carry it out, and ``unshipped`` names the proxy nodes that may
    have calls of before it."""

    erasure: Erasure
    copies: Sequence[CopyProgress] = ()
    unshipped: Sequence[str] = ()


class DataRemoval:
    """The rules and orders of ``control.db``. Every method may also raise sqlite3.Error."""

    def __init__(
        self,
        control: ControlDatabase,
        data_dir: Path,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._control = control
        self._data_dir = data_dir
        self._now = now

    def read_rule(self, caller: Caller, id_or_slug: str | None = None) -> Rule:
        """Return the rule of the organisation, or that of one endpoint. Raises NotFoundError."""
        with self._control.reading() as db:
            endpoint_id = OF_ORGANIZATION
            if id_or_slug is not None:
                endpoint_id = endpoints.get(db, caller.organization_id, id_or_slug).id
            return retention.find(db, caller.organization_id, endpoint_id)

    def read_state(self, caller: Caller) -> RetentionState:
        """Return the rule of the organisation with the preview of its next run."""
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
        """Store a rule in the place of the one before.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError, NotFoundError."""
        require_owner(caller, "change what is kept")
        with audited(self._control, caller) as (db, note):
            endpoint_id, slug = OF_ORGANIZATION, "the organisation"
            if id_or_slug is not None:
                endpoint = endpoints.get(db, caller.organization_id, id_or_slug)
                endpoint_id, slug = endpoint.id, endpoint.slug
            retention.write(db, caller.organization_id, rule, self._now(), endpoint_id)
            details = {
                "slug": slug,
                "text_days": _as_detail(rule.text_days),
                "entry_days": _as_detail(rule.entry_days),
                "max_bytes": _as_detail(rule.max_bytes),
            }
            note("retention.change", endpoint_id or caller.organization_id, details)

    def count_calls(self, caller: Caller, criteria: Criteria) -> int:
        """Return how many recorded calls of this data directory an order would erase now.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError."""
        require_owner(caller, "erase calls")
        erasures.check(criteria)
        return erasing.count_calls(trace_path(self._data_dir, caller.organization_id), criteria)

    def order_erasure(self, caller: Caller, criteria: Criteria) -> Erasure:
        """Order to erase calls. The recorder does it, or ``store.erasure_work`` where none runs. In a
        cluster the recorders of all copies do.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError."""
        require_owner(caller, "erase calls")
        with audited(self._control, caller) as (db, note):
            user_id = None if caller.is_operator else caller.user_id
            erasure = erasures.order(db, caller.organization_id, user_id, criteria, self._now())
            for copy, node in self._find_holders(caller.organization_id).items():
                # From now on it is not over without these, whatever the server of the cluster may lose.
                if node is not None:
                    state = ErasureCopy(erasure_id=erasure.id, node=node, copy=copy)
                    erasure_copies.write(db, state)
            note("erase.order", erasure.id, {"what": erasures.describe(criteria)})
            return erasure

    def get_erasure(self, caller: Caller, erasure_id: str) -> Progress:
        """Return how far an order of the organisation is. Raises ForbiddenError, NotFoundError."""
        require_owner(caller, "erase calls")
        with self._control.reading() as db:
            erasure = erasures.get(db, caller.organization_id, erasure_id)
            return self._find_progress(db, erasure)

    def list_erasures(self, caller: Caller) -> list[Progress]:
        """Return the orders of the organisation that have not ended, the oldest first. Raises
        ForbiddenError."""
        require_owner(caller, "erase calls")
        with self._control.reading() as db:
            orders = erasures.list_open_of(db, caller.organization_id)
            return [self._find_progress(db, each) for each in orders]

    def _find_progress(self, db: sqlite3.Connection, erasure: Erasure) -> Progress:
        states = erasure_copies.list_of(db, erasure.id)
        needed = erasure_copies.find_needed(states, self._find_holders(erasure.organization_id))
        nodes = PageNodes.read(self._data_dir)
        found = {} if nodes is None else {each.id: each for each in nodes.nodes}
        here = None if nodes is None else nodes.here
        living = {each.id for each in found.values() if each.is_alive or each.id == here}
        copies = [
            CopyProgress(
                copy=each.copy,
                node=each.node,
                address=found[each.node].address if each.node in found else None,
                is_alive=each.node in living,
                entries=each.entries,
                erased_at=each.erased_at,
                settled_at=each.settled_at,
            )
            for each in needed
        ]
        unshipped = [
            each.node for each in states if each.copy == OF_PROXY and each.settled_at is None
        ]
        return Progress(erasure=erasure, copies=copies, unshipped=unshipped)

    def _find_holders(self, organization_id: str) -> dict[str, str | None]:
        nodes = PageNodes.read(self._data_dir)
        return {} if nodes is None else nodes.find_holders(organization_id)


def _as_detail(number: int | None) -> str | None:
    return None if number is None else str(number)
