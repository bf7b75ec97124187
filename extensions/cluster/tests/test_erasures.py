"""An order to erase calls is carried out by every copy, whoever is away, and ends when nothing can come."""

from datetime import UTC, datetime, timedelta

import pytest

from extensions.cluster import erasure_copies
from extensions.cluster.buckets import BUCKETS
from extensions.cluster.checks import RecordError
from extensions.cluster.copies import Copy
from extensions.cluster.erasure_copies import ErasureCopy
from extensions.cluster.erasures import (
    SETTLE,
    OrderFollower,
    OrderKeeper,
    OrderReporter,
    find_unshipped,
)
from extensions.cluster.keys import ERASURES, ERASURES_OF_NODES
from extensions.cluster.page_nodes import PageNode, PageNodes, PageNodesFile
from extensions.cluster.records import Report, parse_order, parse_report
from extensions.cluster.shared_rows import read_rows, write_rows
from extensions.cluster.shipper import SENT
from extensions.cluster.tests.spools import make_head, spool
from store.control import activity_log, erasures
from store.control.database import ControlDatabase
from store.control.management import Management
from store.traces.maintenance.criteria import Criteria

EVERYTHING = frozenset(range(BUCKETS))
NODES = {"main": "a", "copy": "b"}  # by copy


class Cluster:
    """The node with people, which keeps the first copy, a node with a second one, and a proxy node."""

    def __init__(self, folder, client, root) -> None:
        self.folder, self.client, self.root = folder, client, root
        self.now = datetime(2026, 1, 2, tzinfo=UTC)
        self.clock_s, self.level_s = 0.0, 0.0
        self.controls = {
            name: ControlDatabase(folder / f"{name}.db", checks_references=name == "a")
            for name in "abp"
        }
        self.home = self.controls["a"]
        self.home.set_up()
        self.management = Management(self.home, folder, lambda: self.now)
        self.caller = self.management.local_caller()
        self.let_keep(NODES)
        for name in "bp":
            with self.home.reading() as db, self.controls[name].transaction() as written:
                write_rows(written, {}, read_rows(db))
        self.proxy = OrderReporter(self.controls["p"], client, "p", root, lambda: self.now)
        self._reporters = {
            name: OrderReporter(self.controls[name], client, name, None) for name in NODES.values()
        }
        self.copies = {name: Copy(client, group, name) for group, name in NODES.items()}
        for copy in self.copies.values():
            copy.buckets = EVERYTHING
        self._followers = {
            name: OrderFollower(
                self.controls[name],
                client,
                name,
                self.copies[name],
                lambda: self.level_s,
                lambda: self.clock_s,
                has_people=name == "a",
            )
            for name in NODES.values()
        }

    def let_keep(self, keepers):
        """Let these nodes keep all calls of their copies."""
        PageNodes(
            here="a",
            group="main",
            nodes=[
                PageNode(id=node, group=group, address=f"{node}:1", is_alive=True)
                for group, node in keepers.items()
            ],
            holders={group: [node] * BUCKETS for group, node in keepers.items()},
        ).write(self.folder)
        nodes = PageNodesFile(self.folder)
        self._keeper = OrderKeeper(nodes, self.home, self.client, "a", lambda: self.now)

    def order(self, **criteria):
        return self.management.removal.order_erasure(self.caller, Criteria(**criteria))

    def run(self, *away):
        """Let each that is not away do its part, in turns until nothing changes, while time goes on."""
        for _ in range(5):
            self.now += timedelta(seconds=2)
            self.level_s, self.clock_s = self.clock_s + 1, self.clock_s + 2
            self._keeper.run_round()
            if "p" not in away:
                self.proxy.run_round()
            for name in NODES.values():
                if name not in away:
                    self._followers[name].run_round()
                    self._let_recorder_work(name)
                    self._reporters[name].run_round()

    def _let_recorder_work(self, name):
        """Do as a recorder does that finds two calls."""
        group = self.copies[name].group
        with self.controls[name].transaction() as db:
            for order in erasures.list_open(db):
                state = erasure_copies.find(db, order.id, name, group)
                if state.erased_at is None:
                    erasure_copies.note_erased(db, state, 2, self.now)
                if state.shipped is not None and state.settled_at is None:
                    erasure_copies.note_settled(db, state, 0, self.now)

    def progress(self, order):
        return self.management.removal.get_erasure(self.caller, order.id)

    def erased(self, order):
        """Return the copies that have erased what they had, and those that are settled."""
        copies = self.progress(order).copies
        return (
            {each.copy for each in copies if each.erased_at},
            {each.copy for each in copies if each.settled_at},
        )

    def has_ended(self, order):
        return self.progress(order).erasure.ended_at is not None

    def log(self):
        with self.home.reading() as db:
            found = activity_log.read(db, self.caller.organization_id)
        return [(each.action, each.details) for each in reversed(found)]

    def open_orders(self, name):
        with self.controls[name].reading() as db:
            return [each.id for each in erasures.list_open(db)]


@pytest.fixture
def cluster(tmp_path, client, root):
    found = Cluster(tmp_path, client, root)
    yield found
    for control in found.controls.values():
        control.close()


def test_an_order_is_carried_out_in_every_copy_and_then_forgotten(cluster, client):
    order = cluster.order(session="s")
    cluster.run()
    assert cluster.erased(order) == ({"main", "copy"}, {"main", "copy"})
    assert not cluster.has_ended(order)
    cluster.now += SETTLE
    cluster.run()
    assert cluster.has_ended(order)
    assert client.hgetall(ERASURES) == {}
    assert cluster.open_orders("b") == []
    for name in "ab":
        criteria = "select criteria from erasures"
        with cluster.controls[name].reading() as db:
            assert db.execute(criteria).fetchall() == [(None,)]
    found = {"calls": "2", "what": "session", "service": True}
    log = cluster.log()
    assert log[0][0] == "erase.order"
    assert sorted(log[1:3], key=str) == [
        ("erase.copy", found | {"copy": "copy"}),
        ("erase.copy", found | {"copy": "main"}),
    ]
    assert log[3:] == [("erase.end", found | {"copies": "copy, main"})]


def test_a_copy_that_is_away_does_it_when_it_is_back(cluster):
    order = cluster.order(session="s")
    cluster.run("b")
    cluster.now += SETTLE
    cluster.run("b")
    assert cluster.erased(order)[0] == {"main"}
    assert not cluster.has_ended(order)
    cluster.run()
    cluster.now += SETTLE
    cluster.run()
    assert cluster.erased(order)[0] == {"main", "copy"}
    assert cluster.has_ended(order)


def test_calls_that_a_proxy_node_has_not_shipped_keep_an_order_open(cluster, run):
    organization_id = cluster.caller.organization_id
    spool(run, "00000000-0000", organization_id=organization_id)
    cluster.run()  # the proxy node is known
    order = cluster.order(session="s")
    cluster.now += SETTLE
    cluster.run()
    assert cluster.erased(order) == ({"main", "copy"}, set())
    assert cluster.progress(order).unshipped == ["p"]
    for path in cluster.root.glob("*/*.done"):
        path.rename(path.with_suffix(SENT))  # it may have to be shipped again
    cluster.run()
    assert cluster.progress(order).unshipped == ["p"]
    for path in cluster.root.glob(f"*/*{SENT}"):
        path.unlink()
    cluster.run("b")  # which has not received what was shipped
    cluster.now += SETTLE
    cluster.run("b")
    assert cluster.progress(order).unshipped == []
    assert cluster.erased(order)[1] == {"main"}
    assert not cluster.has_ended(order)
    cluster.run()
    cluster.now += SETTLE
    cluster.run()
    assert cluster.has_ended(order)


def test_a_proxy_node_whose_clock_is_behind_waits_for_its_own(cluster):
    cluster.run()
    order = cluster.order(session="s")
    cluster.now -= timedelta(seconds=20)
    cluster.run()
    assert cluster.progress(order).unshipped == ["p"]
    cluster.now += timedelta(seconds=20)
    cluster.run()
    assert cluster.progress(order).unshipped == []


def test_a_proxy_node_that_ends_with_nothing_left_is_not_waited_for(cluster, client, run):
    cluster.run()
    order = cluster.order(session="s")
    file = run.create(make_head("0000", cluster.caller.organization_id), b"")
    cluster.proxy.leave()  # a call is in flight
    assert client.hget(ERASURES_OF_NODES, "p") is not None
    cluster.run("p")
    assert cluster.progress(order).unshipped == ["p"]
    file.discard()
    cluster.proxy.leave()
    cluster.run("p")
    cluster.now += SETTLE
    cluster.run("p")
    assert cluster.has_ended(order)
    assert client.hget(ERASURES_OF_NODES, "p") is None


def test_what_the_server_has_lost_is_said_again_and_no_copy_is_forgotten(cluster, client):
    cluster.run()
    order = cluster.order(session="s")
    cluster.run("b")
    client.delete(ERASURES, ERASURES_OF_NODES)
    cluster.let_keep({"main": "a"})  # the other copy was away, and is not known any more
    cluster.now += SETTLE
    cluster.run("b")
    assert not cluster.has_ended(order)
    assert {each.copy for each in cluster.progress(order).copies} == {"main", "copy"}
    cluster.run()
    client.delete(ERASURES)
    cluster._followers["b"].run_round()
    assert cluster.open_orders("b") == [], "it cannot know better"
    cluster.run()
    cluster.now += SETTLE
    cluster.run()
    assert cluster.has_ended(order)


def test_who_takes_the_place_of_a_lost_node_carries_out_what_that_one_had_to(cluster, client):
    order = cluster.order(session="s")
    cluster.run("b")
    cluster.let_keep({"main": "a", "copy": "c"})
    cluster.run("b")
    assert [(each.copy, each.node) for each in cluster.progress(order).copies] == [
        ("copy", "c"),
        ("main", "a"),
    ]
    cluster.now += SETTLE
    cluster.run("b")
    assert not cluster.has_ended(order)


def test_what_a_node_has_received_of_buckets_that_it_does_not_keep_says_nothing(cluster):
    order = cluster.order(session="s")
    cluster.copies["b"].buckets = frozenset()
    cluster.run()
    assert cluster.erased(order)[1] == {"main"}
    cluster.copies["b"].buckets = EVERYTHING
    cluster.run()
    assert cluster.erased(order)[1] == {"main", "copy"}


def test_a_node_is_behind_until_it_has_received_what_was_shipped(cluster):
    order = cluster.order(session="s")
    cluster._keeper.run_round()
    follower = cluster._followers["b"]
    follower.run_round()  # first seen now
    for level_s, expected in ((cluster.clock_s, None), (cluster.clock_s + 1, order.ordered_at)):
        cluster.level_s = level_s
        follower.run_round()
        with cluster.controls["b"].reading() as db:
            assert erasure_copies.find(db, order.id, "b", "copy").shipped == expected


def test_nobody_is_told_of_a_session_longer_than_needed(cluster, client):
    order = cluster.order(session="wombatish")
    cluster.run()
    content = client.hget(ERASURES, order.id)
    assert parse_order(content, order.id).criteria.session == "wombatish"
    assert "wombatish" not in str(client.hgetall(ERASURES_OF_NODES))
    cluster.now += SETTLE
    cluster.run()
    assert cluster.has_ended(order)
    for name in "ab":
        for path in cluster.folder.glob(f"{name}.db*"):
            assert b"wombatish" not in path.read_bytes(), path


def test_states_of_other_nodes_are_theirs_alone(cluster):
    order = cluster.order(session="s")
    forged = ErasureCopy(erasure_id=order.id, node="a", copy="main", entries=7)
    content = Report(states=[forged]).pack()
    assert parse_report(content, "a").states == [forged]
    with pytest.raises(RecordError, match="of the node a"):
        parse_report(content, "x")


def test_calls_are_unshipped_until_they_need_not_be_shipped_again(root, run):
    for number in range(3):
        spool(run, f"000{number}")
    spool(run, "0009", organization_id="org-10")
    run.create(make_head("0003"), b"")
    (sent, *_) = sorted(root.glob("*/0000*"))
    sent.rename(sent.with_suffix(SENT))
    assert find_unshipped(root, "org-1") == {"0000", "0001", "0002", "0003"}
