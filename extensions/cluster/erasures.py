"""Erasures in a cluster: orders that every node with matching calls carries out.

``keys.ERASURES`` has the open orders, and ``keys.ERASURES_OF_NODES`` the report of each node on them.

The node with the pages keeps the orders in its ``control.db`` and publishes them until they end. Every
recorder node writes them into its own ``control.db``, and its recorder carries them out as on a single
machine, also after the node was away.

Calls from before an order can arrive late: a proxy node that was away ships them, or they wait on the
server. A node that knows the order can easily erase them when they arrive. So an order ends only when

1. each proxy node has shipped all such calls (``shipped`` of the order is the time of that), 2. each
copy has received and recorded what was on the server after that, and has erased it, 3. and a minute
has passed, in which a server that fails over may deliver earlier entries again.

Data that the server has lost is published and reported again. A node that takes such a loss for the
end of an order begins again when the order is published again."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from extensions.cluster import checks, erasure_copies, reading, records, server
from extensions.cluster.buckets import find_bucket
from extensions.cluster.copies import Copy
from extensions.cluster.erasure_copies import OF_PROXY, ErasureCopy
from extensions.cluster.keys import ERASURES, ERASURES_OF_NODES
from extensions.cluster.page_nodes import PageNodesFile
from extensions.cluster.records import PublishedOrder, Report
from extensions.cluster.shipper import SENT
from runtime import clock
from store.control import audit, erasures
from store.control.database import ControlDatabase
from store.control.erasures import Erasure
from store.spool.format import DONE, OPEN
from store.spool.unrecorded import find_unrecorded

SETTLE = timedelta(seconds=60)
BEGINNING = timedelta(seconds=1)  # a call has its id a moment before it is in the spool


class OrderKeeper:
    """Publishes the orders of the node with the pages, and ends them when all nodes have carried them out."""

    def __init__(
        self,
        nodes: PageNodesFile,
        control: ControlDatabase,
        client: server.Client,
        node: str,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._nodes, self._control, self._client = nodes, control, client
        self._node = node
        self._now = now
        self._has_ended_some = False

    def run_round(self) -> bool:
        """Read the nodes' reports, and publish changed orders; return whether there were any.

        Raises redis.RedisError, sqlite3.Error."""
        nodes = self._nodes.read()
        if nodes is None:
            return False
        said = read_reports(self._client)
        with self._control.reading() as db:
            orders = erasures.list_open(db)
        wanted: dict[str, bytes] = {}
        for order in orders:
            published = self._look_at(order, nodes.find_holders(order.organization_id), said)
            if published is not None:
                wanted[order.id] = published.pack()
        if self._has_ended_some:  # what was asked for is gone from all files
            self._has_ended_some = not self._control.empty_log()
        return self._publish(wanted, [name for name, each in said.items() if each.has_left])

    def _look_at(
        self, order: Erasure, holders: Mapping[str, str | None], said: Mapping[str, Report]
    ) -> PublishedOrder | None:
        """Store the progress of an order; return what to publish of it, None if it has ended now."""
        now, criteria = self._now(), order.criteria
        if criteria is None:
            return None
        with self._control.transaction() as db:
            known = erasure_copies.list_of(db, order.id)
            states = merge(order, known, holders, said, self._node, clock.format_ms(now))
            for each in states:
                if each not in known:
                    erasure_copies.write(db, each)
            what = erasures.describe(criteria)
            for each in erasure_copies.take_unlogged(db, order.id):
                details = {"calls": f"{each.entries}", "what": what, "copy": each.copy}
                audit.write_for_service(
                    db, order.organization_id, erasures.COPY_ERASED, order.id, details
                )
            needed = erasure_copies.find_needed(states, holders)
            shipped = erasure_copies.find_shipped(order, states)
            if needed and all(each.erased_at for each in needed):
                entries = max(each.entries for each in needed)
                if (order.entries, order.erased_at is None) != (entries, False):
                    erasures.note_erased(db, order.id, entries, now)
                if shipped is not None and is_over(needed, shipped, now):
                    erasures.note_end(db, order.id, sum(each.set_aside for each in needed), now)
                    copies = ", ".join(sorted({each.copy for each in needed}))
                    details = {"calls": f"{entries}", "what": what, "copies": copies}
                    audit.write_for_service(
                        db, order.organization_id, erasures.ENDED, order.id, details
                    )
                    self._has_ended_some = True
                    return None
        return PublishedOrder(
            id=order.id,
            organization_id=order.organization_id,
            ordered_at=order.ordered_at,
            criteria=criteria,
            shipped=shipped,
        )

    def _publish(self, wanted: Mapping[str, bytes], left: Sequence[str]) -> bool:
        changed, gone = reading.compare(self._client, ERASURES, wanted)
        if changed:
            self._client.hset(ERASURES, mapping=changed)
        if gone:
            self._client.hdel(ERASURES, *gone)
        if left:
            self._client.hdel(ERASURES_OF_NODES, *left)
        return bool(changed or gone)


def merge(
    order: Erasure,
    known: Sequence[ErasureCopy],
    holders: Mapping[str, str | None],
    said: Mapping[str, Report],
    own: str,
    now: str,
) -> list[ErasureCopy]:
    """Return the states of an order on all nodes: known ones, updated by the reports in ``said``.

    Nodes in ``holders`` and proxy nodes get a blank state before their first report. Reports of the
    node ``own`` on its copies are ignored, since ``known`` is newer."""
    found = {(each.node, each.copy): each for each in known}
    for copy, node in holders.items():
        if node is not None:
            blank = ErasureCopy(erasure_id=order.id, node=node, copy=copy)
            found.setdefault((node, copy), blank)
    for node, report in said.items():
        place = (node, OF_PROXY)
        if report.clear is not None and (place in found or not report.has_left):
            is_clear = report.has_left or order.id in report.clear
            state = found.get(place, ErasureCopy(erasure_id=order.id, node=node, copy=OF_PROXY))
            found[place] = replace(
                state, settled_at=(state.settled_at or now) if is_clear else None
            )
        if node != own:
            for each in report.states:
                if each.erasure_id == order.id:
                    found[node, each.copy] = each
    return list(found.values())


def is_over(needed: Sequence[ErasureCopy], shipped: str, now: datetime) -> bool:
    """Return whether all copies settled what was ``shipped``, at least ``SETTLE`` ago."""
    settled = [each.settled_at for each in needed if each.settled_at and each.shipped == shipped]
    return len(settled) == len(needed) and clock.parse_instant(max(settled)) + SETTLE <= now


class OrderFollower:
    """Writes published orders for the recorder of a node, and whether all earlier calls have arrived."""

    def __init__(
        self,
        control: ControlDatabase,
        client: server.Client,
        node: str,
        copy: Copy,
        find_level_s: Callable[[], float | None],
        clock_s: Callable[[], float] = time.monotonic,
        *,
        has_people: bool = False,
    ) -> None:
        """Follow the orders on a node that keeps a part of ``copy``.

        ``control`` must not check references. ``find_level_s`` returns a time up to which the node has
        received all data of the server (monotonic), or None. ``has_people``: the node has the pages,
        so the orders are its own."""
        self._control, self._client = control, client
        self._node, self._copy = node, copy
        self._find_level_s = find_level_s
        self._clock_s = clock_s
        self._has_people = has_people
        self._seen_s: dict[tuple[str, str], float] = {}  # since when an order is shipped
        self._has_ended_some = False

    def run_round(self) -> bool:
        """Write changed orders and arrivals; return whether there were any.

        Raises redis.RedisError, sqlite3.Error."""
        orders = _read_orders(self._client)
        has_changed = not self._has_people and self._take_over(orders)
        for order in orders:
            has_changed |= self._note_arrival(order)
        self._seen_s = {
            (each.id, each.shipped): self._seen_s[each.id, each.shipped]
            for each in orders
            if each.shipped is not None and (each.id, each.shipped) in self._seen_s
        }
        if self._has_ended_some:
            self._has_ended_some = not self._control.empty_log()
        return has_changed

    def _take_over(self, orders: Sequence[PublishedOrder]) -> bool:
        with self._control.reading() as db:
            known = {each.id for each in erasures.list_open(db)}
        new = [each for each in orders if each.id not in known]
        gone = known - {each.id for each in orders}
        if not new and not gone:
            return False
        with self._control.transaction() as db:
            for each in new:
                order = each.id, each.organization_id, each.ordered_at, each.criteria
                erasures.take_over(db, *order)
                erasure_copies.forget(db, each.id, self._node)
            for id_ in gone:
                erasures.note_end(db, id_, 0, clock.now())
        self._has_ended_some |= bool(gone)
        return True

    def _note_arrival(self, order: PublishedOrder) -> bool:
        """Store whether all calls from before an order have arrived; return whether that changed.

        If this node does not receive the organisation's bucket, they count as not arrived."""
        is_kept = find_bucket(order.organization_id) in self._copy.received
        shipped = order.shipped if is_kept else None
        with self._control.reading() as db:
            state = erasure_copies.find(db, order.id, self._node, self._copy.group)
        if state.shipped == shipped:
            return False
        if shipped is not None:
            seen_s = self._seen_s.setdefault((order.id, shipped), self._clock_s())
            level_s = self._find_level_s()
            if level_s is None or level_s <= seen_s:
                return False
        with self._control.transaction() as db:
            state = erasure_copies.find(db, order.id, self._node, self._copy.group)
            erasure_copies.write(db, replace(state, shipped=shipped, settled_at=None))
        return True


class OrderReporter:
    """Reports a node's progress with the orders."""

    def __init__(
        self,
        control: ControlDatabase,
        client: server.Client,
        node: str,
        outgoing: Path | None,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        """Report for ``node``; ``outgoing`` is the spool from which it ships, None if it ships none."""
        self._control, self._client = control, client
        self._node = node
        self._outgoing = outgoing
        self._now = now

    def run_round(self) -> bool:
        """Write the report of this node to the server if it has changed; return whether it had.

        Raises redis.RedisError, sqlite3.Error."""
        with self._control.reading() as db:
            states = erasure_copies.list_open_on(db, self._node)
        clear = None if self._outgoing is None else self._find_clear(self._outgoing)
        report = Report(states=states, clear=clear)
        place = self._client, ERASURES_OF_NODES
        if reading.is_said(*place, report.pack(), self._node) or (
            report == Report() and not reading.has_field(*place, self._node)
        ):
            return False
        self._client.hset(ERASURES_OF_NODES, self._node, report.pack())
        return True

    def leave(self) -> None:
        """Report that this node ends, if nothing is left to ship. Raises redis.RedisError, OSError."""
        if self._outgoing is None or any(
            path.suffix in (OPEN, DONE) for path in self._outgoing.glob("*/*~*")
        ):
            return
        with self._control.reading() as db:
            states = erasure_copies.list_open_on(db, self._node)
        report = Report(states=states, clear=[], has_left=True)
        self._client.hset(ERASURES_OF_NODES, self._node, report.pack())

    def _find_clear(self, outgoing: Path) -> list[str]:
        """Return the orders for which this node has no earlier calls left, and none may still begin."""
        orders = _read_orders(self._client)
        return sorted(
            each.id
            for each in orders
            if self._now() > clock.parse_instant(each.ordered_at) + BEGINNING
            and not any(id_ < each.id for id_ in find_unshipped(outgoing, each.organization_id))
        )


def _read_orders(client: server.Client) -> list[PublishedOrder]:
    found = reading.read_hash(client, ERASURES, lambda id_, each: records.parse_order(each, id_))
    return list(found.values())


def read_reports(client: server.Client) -> dict[str, Report]:
    """Return the report of each node on the orders. Raises redis.RedisError."""
    return reading.read_hash(client, ERASURES_OF_NODES, _parse_report)


def _parse_report(node: str, content: bytes) -> Report:
    checks.name(node)
    return records.parse_report(content, node)


def find_unshipped(outgoing: Path, organization_id: str) -> set[str]:
    """Return the entry ids of an organisation's calls in the spool of a proxy node.

    Shipped calls that may have to be shipped again are included."""
    before = _find_sent(outgoing, organization_id)
    # Such a call can wait again, and one that waits be shipped, while the folders are listed.
    return (
        before | find_unrecorded(outgoing, organization_id) | _find_sent(outgoing, organization_id)
    )


def _find_sent(outgoing: Path, organization_id: str) -> set[str]:
    return {
        path.name.partition("~")[0]
        for path in outgoing.glob(f"*/*~{organization_id}*{SENT}")
        if path.name.split("~")[1].partition(".")[0] == organization_id
    }
