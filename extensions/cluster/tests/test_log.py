"""Exchanges go from a spool over Redis into the spool of each group, whole and at least once."""

from collections import Counter

from extensions.cluster import server
from extensions.cluster.copies import Copy
from extensions.cluster.keys import COPIES
from extensions.cluster.log import BUCKETS, find_bucket, stream_name
from extensions.cluster.reading import find_groups
from extensions.cluster.receiver import Receiver
from extensions.cluster.shipper import REMEMBERED_S, Shipper
from extensions.cluster.tests.spools import (
    ORGANIZATION,
    make_head,
    make_receiver,
    names,
    receive,
    spool,
)
from store.spool import reader
from store.spool.format import Rejection, ResponseHead
from store.spool.writer import SpoolRun

STREAM = stream_name(find_bucket(ORGANIZATION))


def count_commands(client: server.Client) -> Counter[str]:
    """Count what the server was told to do, by commands."""
    stats = client.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()})


def test_an_exchange_arrives_as_it_was_and_is_removed_once_it_is_remembered_no_more(
    run, root, tmp_path, client, clock
):
    shipper = Shipper(root, client, clock)
    spool(run, "0001")
    sent = next(root.glob("*/0001*")).read_bytes()
    assert shipper.run_round() == (1, 0)
    assert names(root) == ["0001~org-1.sent"]
    receive(tmp_path / "main", client)
    (found,) = reader.find_waiting(tmp_path / "main")
    assert found.path.read_bytes() == sent
    clock.now_s += REMEMBERED_S
    shipper.run_round()
    assert names(root) == []


def test_each_group_gets_everything_and_then_the_log_is_empty(run, root, tmp_path, client, clock):
    first, second = receive(tmp_path / "a", client, "a"), receive(tmp_path / "b", client, "b")
    for number in range(5):
        spool(run, f"000{number}")
    Shipper(root, client, clock).run_round()
    assert sum(first.run_round() for _ in range(3)) == 5
    first.trim()
    assert client.xlen(STREAM) == 5
    assert sum(second.run_round() for _ in range(3)) == 5
    assert second.trim() == 0
    first.trim()
    assert names(tmp_path / "a") == names(tmp_path / "b") != []
    assert client.xlen(STREAM) <= 1
    assert find_groups(client, [COPIES])[0].keys() == {"a", "b"}


def test_what_was_kept_for_a_copy_that_is_given_up_leaves_the_log(
    run, root, tmp_path, client, clock
):
    receive(tmp_path / "b", client, "b")
    spool(run, "0001")
    spool(run, "0002")
    Shipper(root, client, clock).run_round()
    first = receive(tmp_path / "a", client, "a")
    first.trim()
    first.trim()
    assert client.xlen(STREAM) == 2
    client.xgroup_destroy(COPIES, "b")
    first.trim()
    assert client.xlen(STREAM) == 1


def test_a_copy_that_does_not_keep_up_tells_how_many_entries_it_lacks(
    run, root, tmp_path, client, clock
):
    for number in range(5):
        spool(run, f"000{number}")
    Shipper(root, client, clock).run_round()
    receiver = make_receiver(tmp_path / "main", client)
    lags: list[int] = []
    while not lags or lags[-1]:
        receiver.run_round()
        lags.append(receiver.trim())
    assert lags == [5, 4, 2, 0]


def test_nodes_with_nothing_to_do_ask_the_server_almost_nothing(
    run, root, tmp_path, client, redis_server, clock
):
    shipper, receiver = Shipper(root, client, clock), receive(tmp_path / "main", client)
    spool(run, "0001")
    shipper.run_round()
    while receiver.run_round():
        pass
    receiver.trim()
    observer = server.connect(redis_server.url)
    before = count_commands(observer)
    for _ in range(20):
        shipper.run_round()
        receiver.trim()
    assert count_commands(observer) - before == {"xinfo|groups": 20, "info": 1}  # its own
    observer.close()


def test_what_a_server_lost_that_was_killed_is_shipped_again(
    run, root, tmp_path, redis_server, client, clock
):
    shipper = Shipper(root, client, clock)
    spool(run, "0001")
    shipper.run_round()
    redis_server.kill()
    for path in redis_server.folder.glob("appendonlydir/*.incr.aof"):
        path.write_bytes(b"")
    redis_server.start()
    shipper.disconnect()
    shipper.run_round()
    receive(tmp_path / "main", client)
    assert names(tmp_path / "main") == ["0001~org-1.done"]


def test_what_was_shipped_before_the_shipper_was_killed_is_shipped_again(
    run, root, tmp_path, client, clock
):
    spool(run, "0001")
    Shipper(root, client, clock).run_round()
    assert Shipper(root, client, clock).run_round() == (1, 0)
    receive(tmp_path / "main", client)
    assert names(tmp_path / "main") == ["0001~org-1.done"]


def test_a_receiver_that_was_killed_before_it_acknowledged_gets_its_entries_again(
    run, root, tmp_path, client, clock
):
    receive(tmp_path / "main", client)
    spool(run, "0001")
    Shipper(root, client, clock).run_round()
    client.xreadgroup("main", "node-main", {STREAM: ">"})
    receive(tmp_path / "main", client)
    assert names(tmp_path / "main") == ["0001~org-1.done"]


def test_what_a_receiver_had_begun_to_write_when_it_was_killed_is_removed(tmp_path, client):
    run = SpoolRun(tmp_path / "main", reserve_bytes=0)
    (run.path / "0001~org-1.part").write_bytes(b"beginning")
    run.close()
    receive(tmp_path / "main", client).close()
    assert names(tmp_path / "main") == []


def test_an_exchange_that_its_proxy_did_not_end_arrives_with_its_ending(
    root, tmp_path, client, clock
):
    run = SpoolRun(root, reserve_bytes=0)
    file = run.create(make_head("0001"), b"body")
    file.write_response_head(ResponseHead(status_code=200), 1.0)
    file.write_chunk(b"part", 2.0)
    file.close()
    run.close()
    Shipper(root, client, clock).run_round()
    receive(tmp_path / "main", client)
    (found,) = reader.find_waiting(tmp_path / "main")
    exchange = reader.read_exchange(found.file)
    assert exchange is not None
    assert (exchange.ending.outcome, exchange.response_body) == ("proxy_restarted", b"part")


def test_an_exchange_that_its_proxy_did_not_end_arrives_the_same_when_it_is_shipped_again(
    root, tmp_path, client, clock
):
    run = SpoolRun(root, reserve_bytes=0)
    run.create(make_head("0001"), b"body").close()
    run.close()
    received = []
    for group in ("first", "second"):
        assert Shipper(root, client, clock).run_round() == (1, 0)
        receive(tmp_path / group, client, group)
        (found,) = reader.find_waiting(tmp_path / group)
        exchange = reader.read_exchange(found.file)
        assert exchange is not None
        received.append(exchange.ending.outcome)
        client.flushall()
    assert received == ["proxy_restarted"] * 2


def test_rejections_arrive_for_each_organisation(run, root, tmp_path, client, clock):
    rejections = [
        Rejection(
            organization_id=organization,
            proxy_endpoint_id="endpoint",
            slug="default",
            bucket="messages",
            hour="2026-01-01T00",
            count=3,
        )
        for organization in ("org-1", "org-2")
    ]
    run.write_rejections(rejections)
    Shipper(root, client, clock).run_round()
    receive(tmp_path / "main", client)
    found = [
        each
        for waiting in reader.find_waiting(tmp_path / "main")
        for each in reader.read_rejections(waiting.file)
    ]
    assert sorted(found, key=lambda each: each.organization_id) == rejections


def test_a_copy_says_up_to_when_it_has_everything(run, root, tmp_path, client, clock, monkeypatch):
    monkeypatch.setattr("extensions.cluster.receiver.MOST_ENTRIES", 1)
    receiver = Receiver(
        tmp_path, client, Copy(client, "main", "node"), range(BUCKETS), clock_s=clock
    )
    for entry_id in ("0001", "0002"):
        spool(run, entry_id)
    Shipper(root, client, clock).run_round()
    levels = []
    for _ in range(4):
        clock.now_s += 1.0
        levels.append((receiver.run_round(), receiver.level_s))
    # The first round looks for what was delivered before, and a full batch may not be all that there is.
    assert levels == [(0, None), (1, None), (1, None), (0, 4.0)]


def test_a_node_has_received_what_was_there_before_it_looked_which_buckets_it_keeps(
    tmp_path, client, clock, monkeypatch
):
    """A bucket that comes to it after that is received in the next round."""
    monkeypatch.setattr("extensions.cluster.receiver.BLOCK_MS", 1)
    copy = Copy(client, "main", "node")
    receiver = Receiver(tmp_path, client, copy, range(BUCKETS), clock_s=clock)
    receiver.run_round()
    hold = copy.hold

    def hold_slowly():
        held = hold()
        clock.now_s += 5.0
        return held

    monkeypatch.setattr(copy, "hold", hold_slowly)
    for _ in range(3):
        begun_s = clock.now_s
        receiver.run_round()
    assert receiver.level_s == begun_s
