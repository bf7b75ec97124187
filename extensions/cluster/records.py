"""The records by which nodes exchange data on the server, as checked values.

No other module parses data on the server: a function here returns a value whose every field a node
could have written, or raises RecordError. The entries of the log are parsed in ``log.py`` and the rows
of the directory in ``directory.py``, by the same rule."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from extensions.cluster import checks
from extensions.cluster.buckets import BUCKETS, find_bucket
from extensions.cluster.checks import RecordError, build, parse_json
from extensions.cluster.erasure_copies import ErasureCopy
from store.backup.contents import list_names_of_organization
from store.budget_file import ReachedBudget
from store.control.alerts import Alert as RuleAlert
from store.control.budget_alerts import Alert
from store.control.records import Id, Instant
from store.traces.maintenance.criteria import Criteria

MOST_PIECE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class _Record:
    """A record that is written as JSON."""

    def pack(self) -> bytes:
        return orjson.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Member:
    """A node that keeps a part of a copy. ``address`` is the address of its pages."""

    group: str
    address: str


def parse_node(content: bytes) -> str:
    """Return the id of a node. Raises RecordError."""
    return checks.name(content[:100].decode("ascii", "replace"))


def parse_member(node: str, content: bytes) -> Member:
    """Return the record of a node about itself. Raises RecordError."""
    checks.name(node)
    found = parse_json(content)
    if not isinstance(found, list) or len(found) != 2:
        raise RecordError("not a copy and an address")
    return Member(checks.group(found[0]), checks.address(found[1]) if found[1] else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(_Record):
    """A move of a bucket of a copy, with the ids of both nodes."""

    id: str
    group: str
    bucket: int
    giver: Id
    taker: Id

    @property
    def field(self) -> str:
        return f"{self.group}:{self.bucket}"


_MOVE = checks.find_checks(
    Move, id=checks.identifier, group=checks.group, bucket=checks.integer(0, BUCKETS - 1)
)


def parse_move(content: bytes, field: str | None = None) -> Move:
    """Return a move. If ``field`` is given, the move must belong in that field of the hash.

    Raises RecordError."""
    return build_move(parse_json(content), field)


def build_move(found: object, field: str | None = None) -> Move:
    """Return the move in a JSON object. Raises RecordError."""
    move = build(Move, found, _MOVE)
    if move.giver == move.taker:
        raise RecordError("from a node to itself")
    if field not in (None, move.field):
        raise RecordError(f"a move of {move.field}")
    return move


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(_Record):
    """The offer of the giving node: the id of its attempt, and the files (``folder/name``) with sizes."""

    attempt: str
    files: Sequence[tuple[str, int]]


def parse_offer(content: bytes, move: Move) -> Offer:
    """Return an offer for a move, with files of organisations in its bucket only. Raises RecordError."""

    def check_file(found: object) -> tuple[str, int]:
        if not isinstance(found, list) or len(found) != 2:
            raise RecordError("not a file and its size")
        name = check_trace_file(found[0])
        if find_bucket(name.partition("/")[0]) != move.bucket:
            raise RecordError("a file of another bucket")
        return name, checks.integer(0)(found[1])

    found = {"attempt": checks.identifier, "files": checks.items(check_file)}
    offer = build(Offer, parse_json(content), found)
    if len({name for name, _ in offer.files}) != len(offer.files):
        raise RecordError("a file is there twice")
    return offer


def check_trace_file(value: object) -> str:
    """Return ``<organisation>/<name>`` if it is a file that the store makes. Raises RecordError."""
    if isinstance(value, str):
        folder, _, name = value.partition("/")
        if name in list_names_of_organization():
            return f"{checks.name(folder)}/{name}"
    raise RecordError("not a file of traces")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish(_Record):
    """The wish of the taking node: a piece of a file of an attempt, or ``is_complete`` if it has all.

    ``is_placed``: it keeps the bucket now. ``refusal`` says why it does not take the bucket."""

    attempt: str | None = None
    name: str = ""
    offset: int = 0
    is_complete: bool = False
    is_placed: bool = False
    refusal: str | None = None


_WISH = checks.find_checks(
    Wish,
    attempt=checks.optional(checks.identifier),
    name=lambda value: check_trace_file(value) if value != "" else "",
    refusal=checks.optional(checks.text(300)),
)


def parse_wish(content: bytes) -> Wish:
    """Return the wish of the taking node. Raises RecordError."""
    return build(Wish, parse_json(content), _WISH)


def pack_piece(wish: Wish, piece: bytes) -> bytes:
    """Return the bytes for a piece of a file: the wish that it answers, then the piece."""
    return wish.pack() + b"\n" + piece


def parse_piece(content: bytes, wish: Wish, most: int) -> bytes:
    """Return the piece for a wish, empty if it answers another wish.

    Raises RecordError for a piece of more than ``most`` bytes."""
    head, _, piece = content.partition(b"\n")
    if head != wish.pack():
        return b""
    if len(piece) > min(most, MOST_PIECE_BYTES):
        raise RecordError(f"a piece of {len(piece)} bytes")
    return piece


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedOrder(_Record):
    """An order to erase calls, as published for all nodes.

    ``shipped`` is None while a proxy node may still have calls from before the order."""

    id: str
    organization_id: Id
    ordered_at: Instant
    criteria: Criteria
    shipped: Instant | None


_CRITERIA = checks.find_checks(
    Criteria, **dict.fromkeys(("since", "until"), checks.optional(checks.instant))
)
_ORDER = checks.find_checks(
    PublishedOrder,
    id=checks.identifier,
    criteria=lambda value: build(Criteria, value, _CRITERIA),
)


def parse_order(content: bytes, id_: str) -> PublishedOrder:
    """Return the order with this id. Raises RecordError, also for an order without criteria."""
    order = build(PublishedOrder, parse_json(content), _ORDER)
    if order.id != id_:
        raise RecordError(f"the order {order.id}")
    if not order.criteria.names:
        raise RecordError("an order to erase everything")
    return order


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(_Record):
    """The report of a node on erasures: the states of its copies, and in ``clear`` shipped orders.

    An order is in ``clear`` if the node has shipped all calls from before it; ``clear`` is None if the
    node ships none. ``has_left``: the node has ended with nothing left to ship."""

    states: Sequence[ErasureCopy] = field(default_factory=list)
    clear: Sequence[str] | None = None
    has_left: bool = False


_STATE = checks.find_checks(ErasureCopy, erasure_id=checks.identifier, copy=checks.group)


def parse_report(content: bytes, node: str) -> Report:
    """Return the report of a node, whose states must be its own. Raises RecordError."""

    def check_state(found: object) -> ErasureCopy:
        state = build(ErasureCopy, found, _STATE)
        if state.node != node:
            raise RecordError(f"a state of the node {state.node}")
        return state

    found = {
        "states": checks.items(check_state),
        "clear": checks.optional(checks.items(checks.identifier)),
        "has_left": checks.boolean,
    }
    return build(Report, parse_json(content), found)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport(_Record):
    """The budgets used up by the calls of a node, and the alerts that it made.

    ``alerts`` are those of budgets, ``fired`` those of alert rules."""

    reached: Sequence[ReachedBudget]
    alerts: Sequence[Alert]
    fired: Sequence[RuleAlert] = ()


_REACHED = checks.find_checks(ReachedBudget)
_ALERT = checks.find_checks(Alert, id=checks.identifier)
_FIRED = checks.find_checks(RuleAlert, id=checks.identifier, rule_id=checks.identifier)


def _check_reached(found: object) -> ReachedBudget:
    return build(ReachedBudget, found, _REACHED)


def parse_budget_report(content: bytes) -> BudgetReport:
    """Return the report of a node on budgets. Raises RecordError."""
    found: dict[str, Any] = {
        "reached": checks.items(_check_reached),
        "alerts": checks.items(lambda each: build(Alert, each, _ALERT)),
        "fired": checks.items(lambda each: build(RuleAlert, each, _FIRED)),
    }
    return build(BudgetReport, parse_json(content), found)


def parse_reached(content: bytes) -> list[ReachedBudget]:
    """Return the used-up budgets. Raises RecordError."""
    return checks.items(_check_reached)(parse_json(content))


def parse_checking_key(content: bytes) -> bytes:
    """Return the public key that checks statements. Raises RecordError."""
    if len(content) != 32:
        raise RecordError(f"a key of {len(content)} bytes")
    return content
