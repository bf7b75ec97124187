"""A bucket is moved to another node, whoever is killed on the way, with every call once."""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from types import SimpleNamespace

import pytest
import redis

from extensions.cluster import administration, copies
from extensions.cluster.buckets import BUCKETS, find_bucket, find_bucket_folders
from extensions.cluster.copies import Copy, bucket_key, find_holders
from extensions.cluster.keys import COPIES, MOVES, MOVES_SAID
from extensions.cluster.moving import giving, moves
from extensions.cluster.moving.giving import REST_S, STALLED_S, Giver
from extensions.cluster.moving.incoming import INCOMING
from extensions.cluster.moving.mover import Mover
from extensions.cluster.moving.taking import STABLE_S, Taker
from extensions.cluster.receiver import Receiver
from extensions.cluster.records import Wish
from extensions.cluster.shipper import Shipper
from extensions.cluster.tests.spools import ORGANIZATION, names, spool
from extensions.credentials_in_calls.findings import FoundSecrets
from runtime.errors import ConflictError, InvalidInputError, NotFoundError
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

BUCKET = find_bucket(ORGANIZATION)
PIECE_BYTES = 1_000_000  # so that the largest file has two pieces


class Node:
    """A node of the copy, as its process ``cluster`` is."""

    def __init__(self, name, folder, client, clock) -> None:
        self.name, self.data_dir = name, folder / name
        self.data_dir.mkdir(exist_ok=True)
        self.spool = self.data_dir / "spool"
        self._client, self._clock = client, clock
        self.start()

    def start(self):
        """Start it, in the place of one that was killed."""
        self.copy = Copy(
            self._client, "main", self.name, self._clock,
            find_address=lambda: f"{self.name}:1", data_dir=self.data_dir,
        )  # fmt: skip
        self.receiver = Receiver(self.spool, self._client, self.copy, range(BUCKETS))
        self.giver = Giver(
            self._client, self.receiver.find_received, self.spool, self.data_dir, self._clock
        )
        self.taker = Taker(self._client, self.name, self.data_dir, self._clock)
        self.mover = Mover(self._client, self.copy, self.giver, self.taker)

    def kill(self):
        """End it as a kill does: what the process held is free, and nothing is said."""
        self.giver.release()

    def run(self):
        while self.receiver.run_round():
            pass
        return self.mover.run_round()

    def record(self, *entry_ids):
        """Do as a recorder does with all that is in the spool, and with these."""
        for path in self.spool.glob("*/*.done"):
            entry_ids += (path.name.partition("~")[0],)
            path.unlink()
        if entry_ids:
            with TraceDatabase(trace_path(self.data_dir, ORGANIZATION)) as traces:
                traces.insert(
                    [make_entry(entry_id=each, request_body=b"x" * 9000) for each in entry_ids]
                )

    def entries(self):
        path = trace_path(self.data_dir, ORGANIZATION)
        if not path.exists():
            return None
        with TraceDatabase(path) as traces:
            assert list(traces.verify()) == []
            rows = traces.connection.execute("select entry_id from usage order by 1").fetchall()
        return [each[0] for each in rows]

    @property
    def folders(self):
        return find_bucket_folders(self.data_dir, BUCKET)


class Pair:
    """A node with calls, another one, and a proxy node."""

    def __init__(self, folder, client, clock, run, root) -> None:
        self.client, self.clock, self._run = client, clock, run
        self._shipper = Shipper(root, client, clock)
        self.a = Node("a", folder, client, clock)
        self.a.run()
        self.count = 0
        self.call(3)
        self.a.run()
        self.a.record()
        self.b = Node("b", folder, client, clock)
        with closing(FoundSecrets(trace_path(self.a.data_dir, ORGANIZATION))):
            pass
        self.turn_until(lambda _: self.b.copy.buckets)
        assert self.holder == "a"

    def call(self, number=1):
        for _ in range(number):
            spool(self._run, f"{self.count:04}")
            self.count += 1
        self._shipper.run_round()

    @property
    def expected(self):
        return [f"{number:04}" for number in range(self.count)]

    @property
    def holder(self):
        return find_holders(self.client, "main")[BUCKET]

    def turn(self, number=1, *nodes, seconds=1.0):
        """Let nodes do their part so many times, while time goes on and their recorders work."""
        for _ in range(number):
            self.clock.now_s += seconds
            for node in nodes or (self.a, self.b):
                node.run()
                node.record()

    def turn_until(self, moment, *, calling=False):
        """Let both do their parts until a moment, which is looked for after the part of each."""
        for _ in range(30):
            self.clock.now_s += 1.0
            if calling:
                self.call()
            for node in (self.a, self.b):
                node.run()
                node.record()
                if moment(self):
                    return
        raise AssertionError("the moment has not come")

    @property
    def incoming(self):
        return [path for path in (self.b.data_dir / INCOMING).glob("*") if path.is_dir()]

    @property
    def wish(self):
        """Return what the node that takes asks for."""
        found = moves.find_moves(self.client)
        return (moves.read_wish(self.client, found[0]) if found else None) or Wish()

    def order(self):
        return moves.order(self.client, "main", BUCKET, "a", "b")

    def finish(self):
        """Let all end that goes on, and check that the other node has every call once."""
        for _ in range(40):
            self.turn(seconds=2.0)
            if not self.client.hgetall(MOVES) and not self.b.copy.paused:
                break
        self.call()
        self.turn(3)
        assert self.holder == "b"
        assert self.b.entries() == self.expected
        assert (self.a.entries(), self.a.folders) == (None, [])
        assert not self.incoming
        assert self.client.hgetall(MOVES_SAID) == {}


@pytest.fixture
def pair(tmp_path, redis_server, client, clock, run, root, monkeypatch):
    monkeypatch.setattr("extensions.cluster.receiver.BLOCK_MS", 1)
    monkeypatch.setattr(giving, "PIECE_BYTES", PIECE_BYTES)
    with redis_server.waiting_exactly():
        found = Pair(tmp_path, client, clock, run, root)
        yield found
    found.a.kill()


def test_a_bucket_is_moved_while_calls_come(pair):
    pair.order()
    while pair.holder == "a":
        pair.call()
        pair.turn()
    assert pair.a.entries() is not None, "it is removed when the other one keeps it"
    pair.finish()
    assert (trace_path(pair.b.data_dir, ORGANIZATION).parent / "secrets.db").exists()


# What a move comes to, one after the other. The last is the end of it.
MOMENTS: Mapping[str, Callable[[Pair], object]] = {
    "ordered": lambda pair: pair.client.hgetall(MOVES),
    "a folder for the files": lambda pair: pair.incoming,
    "no calls received any more": lambda pair: pair.a.copy.paused,
    "files held": lambda pair: BUCKET not in pair.a.receiver.find_received(),
    "between two files": lambda pair: "traces.db" in pair.wish.name,
    "within a file": lambda pair: pair.wish.offset > 0,
    "all files there": lambda pair: pair.wish.is_complete,
    "handed over": lambda pair: pair.holder == "b",
    "files in their place": lambda pair: pair.b.folders,
    "calls received": lambda pair: BUCKET in pair.b.receiver.find_received(),
    "files removed": lambda pair: not pair.a.folders,
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("killed", ["a", "b"])
def test_a_move_goes_on_after_the_death_of_either_node_at_any_moment(pair, killed, moment):
    pair.order()
    pair.turn_until(MOMENTS[moment], calling=True)
    node = getattr(pair, killed)
    node.kill()
    pair.call()
    pair.turn(2, pair.b if killed == "a" else pair.a)
    node.start()
    assert BUCKET in pair.b.copy.paused or not pair.incoming
    pair.finish()


def test_nobody_writes_what_is_being_moved(pair):
    pair.order()
    pair.turn(4)
    path = trace_path(pair.a.data_dir, ORGANIZATION)
    with closing(sqlite3.connect(path, timeout=0.01)) as other:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("begin immediate")
        assert other.execute("select count(*) from usage").fetchone() == (3,)
    pair.finish()


def test_calls_that_are_not_recorded_yet_are_waited_for(pair):
    pair.call()
    pair.a.run()
    pair.order()
    for _ in range(10):
        pair.clock.now_s += 1.0
        pair.a.run()  # and its recorder stands still
        pair.b.run()
    assert names(pair.a.spool) == [f"0003~{ORGANIZATION}.done"]
    assert pair.holder == "a"
    pair.finish()


def test_a_node_that_is_awaited_in_vain_keeps_nobody_waiting(pair, monkeypatch):
    pair.order()
    pair.turn(4)
    assert BUCKET not in pair.a.receiver.find_received()
    with monkeypatch.context() as alone:
        alone.setattr(copies, "find_living", lambda *_: {"a"})
        pair.call()
        pair.turn(3, pair.a)
        assert pair.a.entries() == pair.expected
    pair.finish()


def test_a_server_that_loses_the_last_seconds_brings_the_bucket_back(pair):
    move = pair.order()
    while pair.holder == "a":
        pair.turn()
    pair.turn()
    pair.client.hset(bucket_key("main"), BUCKET, "a")
    assert pair.client.hget(MOVES, move.field) is not None
    pair.call()
    pair.turn(1, pair.b)
    assert pair.b.folders == []
    pair.finish()


def test_a_bucket_is_received_only_when_it_has_been_kept_for_a_while(pair):
    pair.order()
    while pair.holder == "a":
        pair.turn()
    pair.turn()
    assert pair.b.folders, "pages are there at once"
    kept_s = pair.clock.now_s
    while BUCKET not in pair.b.receiver.find_received():
        pair.turn()
    assert pair.clock.now_s - kept_s >= STABLE_S - 1
    pair.finish()


def test_a_move_is_cancelled_until_it_is_handed_over(pair, redis_server):
    pair.order()
    pair.turn(5)
    assert administration.cancel_move(redis_server.url, BUCKET, "b")
    pair.call()
    pair.turn(3)
    assert pair.a.entries() == pair.expected
    assert (pair.b.folders, pair.incoming) == ([], [])
    pair.order()
    while pair.holder == "a":
        pair.turn()
    assert not administration.cancel_move(redis_server.url, BUCKET, "b")
    pair.finish()


def test_a_node_takes_nothing_that_it_has_already(pair, redis_server):
    trace_path(pair.b.data_dir, ORGANIZATION).parent.mkdir(parents=True)
    move = pair.order()
    pair.turn(3)
    state = administration.read_move(redis_server.url, move)
    assert state.problem == f"the node has calls of bucket {BUCKET} already"
    assert administration.cancel_move(redis_server.url, BUCKET, "b")
    pair.call()
    pair.turn(3)
    assert pair.a.entries() == pair.expected


def test_the_operator_orders_a_move_and_follows_it(pair, redis_server):
    url = redis_server.url
    with pytest.raises(NotFoundError):
        administration.order_move(url, BUCKET, "nobody")
    assert administration.order_move(url, BUCKET, "a") is None
    move = administration.order_move(url, BUCKET, "b")
    assert move is not None
    assert administration.order_move(url, BUCKET, "b") == move
    with pytest.raises(ConflictError):
        administration.order_move(url, BUCKET, "a")
    shares = []
    while not (state := administration.read_move(url, move)).is_handed_over:
        if state.bytes:
            shares.append(state.done_bytes / state.bytes)
        pair.turn()
    assert shares == sorted(shares)
    assert len(set(shares)) > 3
    pair.finish()
    assert administration.read_move(url, move).has_ended
    assert administration.order_move(url, BUCKET, "b") is None


def test_a_bucket_is_named_by_its_number_or_an_organization_that_is_there(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
        id_ = control.get_local_organization().id
        assert administration.parse_bucket(control, id_) == find_bucket(id_)
        assert administration.parse_bucket(control, "63") == 63
        with pytest.raises(InvalidInputError):
            administration.parse_bucket(control, "64")
        for text in (id_[:-1], "17 ", "-1", "²", "", "none"):
            with pytest.raises(NotFoundError):
                administration.parse_bucket(control, text)


def test_a_bucket_without_calls_is_moved_too(pair):
    empty = next(bucket for bucket in pair.a.copy.buckets if bucket != BUCKET)
    moves.order(pair.client, "main", empty, "a", "b")
    pair.turn(30)
    assert find_holders(pair.client, "main")[empty] == "b"
    assert pair.client.hgetall(MOVES) == {}
    assert empty in pair.b.receiver.find_received()
    assert pair.client.xinfo_groups(COPIES)[0]["name"] == b"main"


def forget(pair, redis_server, tmp_path, gone):
    """Let a node be gone for good, and give it up."""
    pair.client.xgroup_delconsumer(COPIES, "main", gone)
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
        administration.forget(redis_server.url, control, gone)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_move_ends_when_the_node_that_takes_is_forgotten(pair, redis_server, tmp_path, moment):
    pair.order()
    pair.turn_until(MOMENTS[moment])
    is_over = pair.client.hgetall(MOVES) == {}
    pair.b.kill()
    forget(pair, redis_server, tmp_path, "b")
    assert (pair.client.hgetall(MOVES), pair.client.hgetall(MOVES_SAID)) == ({}, {})
    pair.call()
    pair.turn(4, pair.a)
    assert pair.holder == "a"
    assert pair.a.entries() == (["0003"] if is_over else pair.expected)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_move_ends_when_the_node_that_gives_is_forgotten(pair, redis_server, tmp_path, moment):
    pair.order()
    pair.turn_until(MOMENTS[moment])
    is_handed_over = pair.holder == "b"
    pair.a.kill()
    forget(pair, redis_server, tmp_path, "a")
    assert (pair.client.hgetall(MOVES), pair.client.hgetall(MOVES_SAID)) == ({}, {})
    pair.call()
    pair.turn(12, pair.b)
    assert pair.holder == "b"
    assert pair.b.entries() == (pair.expected if is_handed_over else ["0003"])
    assert pair.b.copy.paused == frozenset()
    assert not pair.incoming


def test_a_bucket_that_is_given_away_while_it_is_asked_for_is_received(pair):
    """A node that comes is given buckets without calls, whatever the operator has ordered of them."""
    empty = next(bucket for bucket in pair.a.copy.buckets if bucket != BUCKET)
    moves.order(pair.client, "main", empty, "a", "b")
    pair.turn(1, pair.b)
    pair.client.hset(bucket_key("main"), empty, "b")
    pair.turn(12)
    assert pair.client.hgetall(MOVES) == {}
    assert empty in pair.b.receiver.find_received()
    assert not pair.incoming


def test_a_bucket_whose_move_does_not_go_on_is_received_meanwhile(pair, monkeypatch):
    """Otherwise the calls on a full server would wait for the move, and the move for room."""
    move = pair.order()
    pair.turn(4)
    assert pair.a.copy.paused
    monkeypatch.setattr(pair.b.taker, "run_round", lambda *_: False)  # its disk is full, say
    pair.call()
    pair.turn(2)
    pair.turn(1, seconds=STALLED_S)
    pair.turn(2)
    assert pair.a.entries() == pair.expected
    monkeypatch.setattr(pair.b.taker, "run_round", Taker.run_round.__get__(pair.b.taker))
    pair.turn(1, seconds=REST_S)
    assert pair.client.hget(MOVES, move.field) == move.pack() or pair.holder == "b"
    pair.finish()


def test_an_attempt_that_could_not_be_offered_is_none(pair, monkeypatch):
    pair.order()
    hset = pair.client.hset

    def refuse(name, key, *words):
        if name == MOVES_SAID and key.endswith(":from"):
            raise redis.exceptions.OutOfMemoryError("full")
        return hset(name, key, *words)

    with monkeypatch.context() as full:
        full.setattr(pair.client, "hset", refuse)
        with pytest.raises(redis.RedisError):
            pair.turn(4)
    pair.finish()


def test_a_node_without_room_says_so_and_calls_are_received(pair, redis_server, monkeypatch):
    move = pair.order()
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
        pair.turn(6)
        pair.call()
        pair.turn(2)
        assert pair.a.entries() == pair.expected
        state = administration.read_move(redis_server.url, move)
        assert "less room than" in (state.problem or "")
    pair.finish()


def test_two_operators_who_order_at_once_order_one_move(pair, redis_server, monkeypatch):
    """The second one is told of the first, also where both looked before either ordered."""
    first = moves.order(pair.client, "main", BUCKET, "a", "c")
    monkeypatch.setattr(administration, "_find_move", lambda *_: None)
    with pytest.raises(ConflictError, match="to the node c"):
        administration.order_move(redis_server.url, BUCKET, "b")
    assert moves.find_moves(pair.client) == [first]
