"""The states of erasures on the nodes of a cluster: rows of ``erasure_copies``.

The node with the pages has the states of all nodes, and every other node its own. On a node that keeps
a copy, ``erased_at`` is set once recorded calls are erased, and ``settled_at`` once no more calls from
before the order can arrive. A proxy node, whose ``copy`` is empty, is settled once it has shipped all
such calls."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from runtime import clock
from store.control.erasures import Erasure
from store.control.records import Id, Instant, Table

OF_PROXY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureCopy:
    """The state of an order to erase calls, on one node.

    Calls that were shipped up to the time ``shipped`` have arrived there."""

    erasure_id: Id
    node: Id
    copy: str
    entries: int = 0
    set_aside: int = 0
    erased_at: Instant | None = None
    shipped: Instant | None = None
    settled_at: Instant | None = None


TABLE = Table("erasure_copies", ErasureCopy)


def list_of(db: sqlite3.Connection, erasure_id: str) -> list[ErasureCopy]:
    """Return the states of an order on all nodes known to be concerned."""
    return TABLE.read(db, "where erasure_id = ? order by copy, node", erasure_id)


def list_open_on(db: sqlite3.Connection, node: str) -> list[ErasureCopy]:
    """Return the states of open orders in the copies on a node."""
    return TABLE.read(
        db,
        "where node = ? and copy <> ''"
        " and erasure_id in (select id from erasures where ended_at is null) order by erasure_id",
        node,
    )


def find(db: sqlite3.Connection, erasure_id: str, node: str, copy: str) -> ErasureCopy:
    """Return the state of an order on a node, or a blank state if none is stored."""
    found = TABLE.find(db, "where erasure_id = ? and node = ? and copy = ?", erasure_id, node, copy)
    return found or ErasureCopy(erasure_id=erasure_id, node=node, copy=copy)


def write(db: sqlite3.Connection, state: ErasureCopy) -> None:
    """Store a state, replacing an earlier one."""
    TABLE.insert(db, state, key="erasure_id, node, copy")


def note_erased(db: sqlite3.Connection, state: ErasureCopy, entries: int, now: datetime) -> None:
    """Store that recorded calls of a copy are erased. ``entries`` is the total number removed."""
    db.execute(
        "insert into erasure_copies (erasure_id, node, copy, entries, erased_at) values (?, ?, ?, ?, ?)"
        " on conflict do update set entries = excluded.entries,"
        " erased_at = coalesce(erased_at, excluded.erased_at)",
        (state.erasure_id, state.node, state.copy, entries, clock.format_ms(now)),
    )


def note_settled(db: sqlite3.Connection, state: ErasureCopy, set_aside: int, now: datetime) -> None:
    """Store that nothing is left to erase in a copy, unless ``shipped`` has changed meanwhile."""
    db.execute(
        "update erasure_copies set set_aside = ?, settled_at = ?"
        " where erasure_id = ? and node = ? and copy = ? and shipped = ?",
        (
            set_aside,
            clock.format_ms(now),
            state.erasure_id,
            state.node,
            state.copy,
            state.shipped,
        ),
    )


def forget(db: sqlite3.Connection, erasure_id: str, node: str) -> None:
    """Remove the states of an order on a node."""
    TABLE.delete(db, "where erasure_id = ? and node = ?", erasure_id, node)


def forget_node(db: sqlite3.Connection, node: str) -> None:
    """Remove a node that is gone for good from all open orders."""
    TABLE.delete(
        db,
        "where node = ? and erasure_id in (select id from erasures where ended_at is null)",
        node,
    )


def take_unlogged(db: sqlite3.Connection, erasure_id: str) -> list[ErasureCopy]:
    """Return the copies that have erased their calls and are not in the activity log yet.

    They are marked as logged."""
    found = TABLE.read(
        db,
        "where erasure_id = ? and copy <> '' and erased_at is not null and is_logged = 0",
        erasure_id,
    )
    db.execute(
        "update erasure_copies set is_logged = 1 where erasure_id = ? and erased_at is not null",
        (erasure_id,),
    )
    return found


def find_needed(states: list[ErasureCopy], holders: Mapping[str, str | None]) -> list[ErasureCopy]:
    """Return the states of the nodes that must carry out an order.

    These are the nodes in ``holders``, which maps each copy to the node that keeps the organisation.
    If that is None (unknown), a node that has a state for the copy is needed."""
    return [each for each in states if each.copy and holders.get(each.copy) in (None, each.node)]


def find_shipped(erasure: Erasure, states: list[ErasureCopy]) -> str | None:
    """Return the time at which all calls from before an order had been shipped.

    Return None while a proxy node may still have some."""
    instants = [each.settled_at for each in states if each.copy == OF_PROXY]
    known = [each for each in instants if each is not None]
    return max(known, default=erasure.ordered_at) if len(known) == len(instants) else None
