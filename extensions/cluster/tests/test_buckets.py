"""The nodes of a group share the buckets, and each organisation stays on one of them."""

import logging

import pytest

from extensions.cluster import copies
from extensions.cluster.buckets import BUCKETS, find_bucket
from extensions.cluster.copies import Copy, NothingToKeepError, View, bucket_key, find_holders
from extensions.cluster.keys import COPIES, NODES
from extensions.cluster.log import stream_name
from extensions.cluster.receiver import Receiver
from extensions.cluster.shipper import Shipper
from extensions.cluster.tests.spools import ORGANIZATION, names, spool
from store.traces.paths import trace_path

BUCKET = find_bucket(ORGANIZATION)


class Nodes:
    """Nodes of one group, at a clock that moves when it is told to."""

    def __init__(self, folder, client, clock) -> None:
        self._folder, self._client, self._clock = folder, client, clock
        self._receivers: dict[str, Receiver] = {}
        self.copies: dict[str, Copy] = {}

    def start(self, name):
        """Start a node whose data directory has its name; return where its spool is."""
        data_dir = self._folder / name
        data_dir.mkdir(exist_ok=True)
        copy = Copy(self._client, "main", name, self._clock, data_dir=data_dir)
        self.copies[name] = copy
        self._receivers[name] = Receiver(data_dir / "spool", self._client, copy, range(BUCKETS))
        return data_dir / "spool"

    def run(self, *only):
        """Let these nodes, or all, look at their copy again and receive what there is."""
        self._clock.now_s += 1.0
        for name in only or self._receivers:
            while self._receivers[name].run_round():
                pass

    def counts(self):
        return {name: len(copy.buckets) for name, copy in self.copies.items()}

    def restore(self, name, organization_id=ORGANIZATION):
        """Let a node have calls of an organisation in its data directory."""
        path = trace_path(self._folder / name, organization_id)
        path.parent.mkdir(parents=True)
        path.touch()


@pytest.fixture
def nodes(tmp_path, client, clock, monkeypatch):
    monkeypatch.setattr("extensions.cluster.receiver.BLOCK_MS", 1)
    return Nodes(tmp_path, client, clock)


@pytest.fixture
def nobody_lives(nodes, monkeypatch):
    """Let all nodes but the one that looks have been away for long."""
    monkeypatch.setattr(copies, "ALIVE_S", -1.0)


def test_the_buckets_are_shared_and_one_with_calls_stays_where_it_is(
    nodes, run, root, client, clock
):
    first = nodes.start("a")
    nodes.run()
    assert nodes.counts() == {"a": BUCKETS}
    spool(run, "0001")
    Shipper(root, client, clock).run_round()
    nodes.run()
    others = nodes.start("b"), nodes.start("c")
    nodes.run("b", "c")
    for _ in range(3):
        nodes.run()
    assert sorted(nodes.counts().values()) == [21, 21, 22]
    assert BUCKET in nodes.copies["a"].buckets
    spool(run, "0002")
    Shipper(root, client, clock).run_round()
    nodes.run()
    assert names(first) == ["0001~org-1.done", "0002~org-1.done"]
    assert [names(each) for each in others] == [[], []]


def test_a_bucket_without_calls_is_read_by_the_node_that_was_given_it(
    nodes, run, root, client, clock
):
    nodes.start("a")
    nodes.run()
    spools = {"b": nodes.start("b")}
    nodes.run("b")
    for _ in range(2):
        nodes.run()
    given = nodes.copies["b"].buckets
    assert len(given) == BUCKETS // 2
    organization_id = next(f"org-{n}" for n in range(999) if find_bucket(f"org-{n}") in given)
    spool(run, "0001", organization_id=organization_id)
    Shipper(root, client, clock).run_round()
    nodes.run()
    assert names(spools["b"]) == [f"0001~{organization_id}.done"]


def test_what_a_node_keeps_is_not_taken_from_it_while_it_is_away(nodes, client, nobody_lives):
    nodes.start("a")
    nodes.run()
    nodes.start("b")
    for _ in range(3):
        with pytest.raises(NothingToKeepError, match="`taximeter cluster forget` a"):
            nodes.run("b")
    assert set(find_holders(client, "main")) == {"a"}


def test_a_node_on_which_its_calls_were_restored_takes_the_place_of_a_lost_one(
    nodes, run, root, client, clock, nobody_lives
):
    nodes.start("a")
    nodes.run()
    spool(run, "0001")
    Shipper(root, client, clock).run_round()
    client.xreadgroup("main", "a", {stream_name(BUCKET): ">"})  # and it was lost before it wrote it
    found = nodes.start("b")
    nodes.restore("b")
    nodes.run("b")
    assert set(find_holders(client, "main")) == {"b"}
    assert names(found) == ["0001~org-1.done"]


def test_the_buckets_of_a_node_that_was_taken_out_are_taken_by_another(nodes, client, nobody_lives):
    nodes.start("a")
    nodes.run()
    nodes.start("b")
    with pytest.raises(NothingToKeepError):
        nodes.run("b")
    client.hdel(NODES, "a")
    for _ in range(2):
        nodes.run("b")
    assert set(find_holders(client, "main")) == {"b"}


def test_a_server_that_has_lost_who_keeps_what_is_told_by_the_files(nodes, client):
    for name in "ab":
        nodes.start(name)
        nodes.run(name)
    nodes.run()
    nodes.run()
    kept = nodes.copies["a"].buckets
    mine = next(f"org-{n}" for n in range(999) if find_bucket(f"org-{n}") in kept)
    nodes.restore("a", mine)
    client.delete(bucket_key("main"), NODES)
    nodes.run("b")
    assert find_holders(client, "main")[find_bucket(mine)] is None
    nodes.run("a")
    for _ in range(2):
        nodes.run()
    assert find_holders(client, "main")[find_bucket(mine)] == "a"
    assert None not in find_holders(client, "main")


def test_a_node_says_that_it_has_calls_which_another_one_keeps(nodes, caplog):
    nodes.start("a")
    nodes.run()
    nodes.start("b")
    nodes.restore("b")
    with caplog.at_level(logging.ERROR):
        nodes.run("b")
        nodes.run()
        nodes.run()
    assert "this node has calls of 1 buckets that others keep (a)" in caplog.text


def test_of_two_that_would_take_the_same_bucket_one_does(client):
    client.xgroup_create(COPIES, "main", mkstream=True)
    first, second = (Copy(client, "main", name) for name in "ab")
    view = View(node="a", holders=[None] * BUCKETS, members={"a"}, living={"a"}, is_alone=True)
    assert first._move(view, range(BUCKETS), "a") == view.free
    assert second._move(view, range(BUCKETS), "b") == frozenset()
    assert set(find_holders(client, "main")) == {"a"}
