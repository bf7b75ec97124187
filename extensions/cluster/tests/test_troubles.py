"""A log in trouble loses nothing: a full server, a full disk, a slow recorder."""

import logging
import os

import pytest
import redis

from extensions.cluster import receiver as receivers
from extensions.cluster.copies import Copy
from extensions.cluster.log import BUCKETS, find_bucket, stream_name
from extensions.cluster.receiver import MOST_ENTRIES, Receiver, choose_count
from extensions.cluster.shipper import REMEMBERED_S, Shipper
from extensions.cluster.tests.spools import ORGANIZATION, names, receive, spool
from store.spool.format import DONE

STREAM = stream_name(find_bucket(ORGANIZATION))


def test_a_full_server_is_emptied_by_a_receiver_that_begins_then(
    run, root, tmp_path, client, clock
):
    receive(tmp_path / "main", client).close()
    shipper = Shipper(root, client, clock)
    spool(run, "0001", os.urandom(100_000))
    shipper.run_round()
    client.config_set("maxmemory", 1)  # it has more already, and always will
    spool(run, "0002", os.urandom(100_000))
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        shipper.run_round()
    assert names(root) == ["0001~org-1.sent", "0002~org-1.done"]
    receive(tmp_path / "main", client).trim()
    client.config_set("maxmemory", 0)
    shipper.run_round()
    receive(tmp_path / "main", client)
    assert names(tmp_path / "main") == ["0001~org-1.done", "0002~org-1.done"]


def test_what_could_not_be_written_is_received_when_it_can(
    run, root, tmp_path, client, clock, monkeypatch
):
    receiver = receive(tmp_path / "main", client)
    spool(run, "0001")
    Shipper(root, client, clock).run_round()

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(receivers, "_write_durably", fail)
        with pytest.raises(OSError, match="No space"):
            receiver.run_round()
    assert receiver.run_round() == 1
    assert names(tmp_path / "main") == ["0001~org-1.done"]


def test_entries_wait_on_the_server_while_the_recorder_has_much_to_do(
    run, root, tmp_path, client, clock, monkeypatch
):
    monkeypatch.setattr(receivers, "MOST_WAITING", 2)
    copy = Copy(client, "main", "node")
    receiver = Receiver(tmp_path / "main", client, copy, range(BUCKETS), clock_s=clock)
    for number in range(4):
        spool(run, f"000{number}")
    Shipper(root, client, clock).run_round()
    received = []
    for _ in range(6):
        clock.now_s += 1
        received.append(receiver.run_round())
    assert received == [0, 1, 2, 0, 0, 0]
    for path in (tmp_path / "main").glob(f"*/*{DONE}"):
        path.unlink()
    clock.now_s += 1
    assert receiver.run_round() == 1


def test_nothing_is_received_into_the_reserve_of_the_disk(run, root, tmp_path, client, clock):
    spool(run, "0001")
    Shipper(root, client, clock).run_round()
    copy = Copy(client, "main", "node")
    receiver = Receiver(tmp_path / "main", client, copy, range(BUCKETS), reserve_bytes=1 << 60)
    for _ in range(2):
        with pytest.raises(OSError, match="calls wait on the server"):
            receiver.run_round()
    assert client.xlen(STREAM) == 1


@pytest.mark.parametrize(
    ("count", "largest", "streams", "expected"),
    [(1, 1000, 1, 2), (16, 1000, 64, MOST_ENTRIES), (16, 30 << 20, 1, 1), (16, 1 << 20, 16, 2)],
)
def test_a_batch_is_bounded_by_its_bytes(count, largest, streams, expected):
    assert choose_count(count, largest, streams) == expected


def test_an_entry_that_was_removed_before_it_was_written_is_reported_and_holds_up_nothing(
    run, root, tmp_path, client, clock, caplog
):
    receive(tmp_path / "main", client).close()
    spool(run, "0001")
    Shipper(root, client, clock).run_round()
    client.xreadgroup("main", "node-main", {STREAM: ">"})
    client.xtrim(STREAM, maxlen=0, approximate=False)
    with caplog.at_level(logging.ERROR):
        receiver = receive(tmp_path / "main", client)
    assert "was removed from the server before" in caplog.text
    assert receiver.trim() == 0
    assert list((tmp_path / "main").glob("unreadable/*")) == []


def test_a_server_that_takes_no_writes_makes_the_shipper_keep_what_it_sent(
    run, root, client, clock
):
    shipper = Shipper(root, client, clock)
    spool(run, "0001")
    shipper.run_round()
    client.config_set("min-replicas-to-write", 1)  # and it has none: it is cut off from them
    clock.now_s += REMEMBERED_S
    with pytest.raises(redis.ResponseError, match="NOREPLICAS"):
        shipper.run_round()
    assert names(root) == ["0001~org-1.sent"]


def test_a_file_that_cannot_be_read_holds_up_no_other(run, root, tmp_path, client, clock):
    (run.path / "0000~org-1.done").symlink_to("/dev/zero")
    spool(run, "0001")
    assert Shipper(root, client, clock).run_round() == (1, 0)
    receive(tmp_path / "main", client)
    assert names(tmp_path / "main") == ["0001~org-1.done"]


def test_more_than_a_batch_is_shipped_in_one_round(run, root, client, clock, monkeypatch):
    monkeypatch.setattr("extensions.cluster.shipper.BATCH_FILES", 2)
    for number in range(5):
        spool(run, f"000{number}")
    assert Shipper(root, client, clock).run_round() == (5, 0)
    assert client.xlen(STREAM) == 5
