import sqlite3
from contextlib import closing
from unittest import mock

import pytest

from store.following import follower as follower_module
from store.following.follower import BatchRefusedError, Follower, ReceiverAwayError, begin
from store.following.positions import Positions, make_migrations
from store.traces.calls.finished_calls import FinishedCalls
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

RECEIVER = "a receiver"


class Sent(list[str]):
    """The entry ids of what was acknowledged. ``trouble`` is why nothing is, at the moment.

    A batch with one of ``refused`` is refused."""

    trouble: str | None = None
    left_out = 0

    def __init__(self):
        super().__init__()
        self.refused = set()
        self.sizes = []

    def send(self, _organization_id, batch):
        if self.trouble is not None:
            raise ReceiverAwayError(self.trouble)
        ids = [call.entry_id for call, _ in batch]
        self.sizes.append(len(ids))
        if self.refused & set(ids):
            raise BatchRefusedError("code: 400, reason: Bad Request")
        self.extend(ids)
        return self.left_out


@pytest.fixture
def sent():
    return Sent()


@pytest.fixture
def positions(tmp_path):
    with Positions(tmp_path / "positions.db", make_migrations("positions")) as positions:
        yield positions


@pytest.fixture
def make(tmp_path, positions, sent):
    def make(receiver=RECEIVER):
        return Follower(tmp_path, positions, receiver, sent.send)

    return make


@pytest.fixture
def record(tmp_path):
    """Records calls, and returns their entry ids."""

    def record(count, organization="org_1"):
        entries = [make_entry() for _ in range(count)]
        with TraceDatabase(trace_path(tmp_path, organization)) as traces:
            traces.insert(entries)
        return [entry.entry_id for entry in entries]

    return record


def test_each_call_is_sent_once_in_the_order_in_which_it_was_stored(
    make, record, sent, monkeypatch
):
    monkeypatch.setattr(follower_module, "BATCH", 3)
    follower = make()
    follower.run_round()
    first = record(7)
    follower.run_round()
    follower.run_round()
    assert sent == first
    second = record(2)
    make().run_round()  # a new process
    follower.run_round()
    assert sent == first + second


def test_calls_that_are_stored_within_one_tick_of_the_clock_of_files_are_all_sent(
    make, record, sent, monkeypatch
):
    monkeypatch.setattr(follower_module, "find_stamp", lambda _: ((1, 4096),))
    reads = mock.Mock(wraps=FinishedCalls.open)
    monkeypatch.setattr(FinishedCalls, "open", reads)
    follower = make()
    ids = record(1)
    follower.run_round()
    ids += record(1)
    follower.run_round()
    assert sent == ids
    reads.reset_mock()
    follower.run_round()
    reads.assert_not_called()


def test_calls_wait_while_the_receiver_is_away(make, record, sent):
    follower = make()
    sent.trouble = "connection refused"
    ids = record(2)
    for _ in range(3):
        with pytest.raises(ReceiverAwayError, match="connection refused"):
            follower.run_round()
    sent.trouble = None
    ids += record(1)
    follower.run_round()
    assert sent == ids


def test_a_receiver_gets_what_is_recorded_after_its_first_start(
    tmp_path, make, record, sent, positions
):
    record(2)
    begin(tmp_path, positions, RECEIVER)
    later = record(1) + record(2, "org_2")
    begin(tmp_path, positions, RECEIVER)  # of a later start
    make().run_round()
    assert sorted(sent) == sorted(later)


def test_each_receiver_has_a_position_of_its_own(make, record, sent):
    ids = record(1)
    make().run_round()
    make("another receiver").run_round()
    assert sent == ids * 2


def test_a_process_that_ends_before_it_wrote_the_position_sends_the_batch_again(
    make, record, sent, positions, monkeypatch
):
    ids = record(2)
    with monkeypatch.context() as patched:
        patched.setattr(positions, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make().run_round()
    make().run_round()
    make().run_round()
    assert sent == ids * 2


def test_an_organisation_whose_database_is_corrupt_holds_up_no_other(
    tmp_path, make, record, sent, caplog
):
    record(1, "org_1")
    trace_path(tmp_path, "org_1").write_bytes(b"no database" * 100)
    ids = record(1, "org_2")
    follower = make()
    follower.run_round()
    follower.run_round()
    assert sent == ids
    assert caplog.text.count("org_1") == 1


def test_only_what_is_too_much_to_wait_is_dropped_and_counted(
    make, record, sent, positions, monkeypatch, caplog
):
    monkeypatch.setattr(follower_module, "MAX_WAITING", 3)
    follower = make()
    sent.trouble = "away"
    ids = record(3)
    with pytest.raises(ReceiverAwayError):
        follower.run_round()
    assert positions.find(RECEIVER, "org_1").dropped == 0
    ids += record(2)
    for _ in range(2):
        with pytest.raises(ReceiverAwayError):
            follower.run_round()
    assert positions.find(RECEIVER, "org_1").dropped == 2
    assert "oldest are dropped" in caplog.text
    sent.trouble = None
    follower.run_round()
    assert sent == ids[2:]
    assert positions.find(RECEIVER, "org_1").exported == 3


def test_calls_after_a_restored_backup_are_sent_though_their_ids_were_used_before(
    tmp_path, make, record, sent
):
    ids = record(2)
    path = trace_path(tmp_path, "org_1")
    backup = tmp_path / "backup.db"
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(backup)) as copy:
        db.backup(copy)
    ids += record(3)
    make().run_round()
    for file in path.parent.iterdir():
        file.unlink()
    backup.rename(path)
    ids += record(1)
    make().run_round()
    make().run_round()
    assert sent == ids


def test_calls_that_were_removed_meanwhile_make_no_difference(tmp_path, make, record, sent):
    ids = record(2)
    make().run_round()
    with TraceDatabase(trace_path(tmp_path, "org_1")) as traces:
        traces.prune(before="2030-01-01T00:00:00.000Z")
    ids += record(1)
    make().run_round()
    assert sent == ids


def test_a_call_that_the_receiver_refuses_is_dropped_alone_and_holds_up_no_other(
    make, record, sent, positions, monkeypatch, caplog
):
    monkeypatch.setattr(follower_module, "BATCH", 16)
    ids = record(40)
    sent.refused = {ids[20]}
    make().run_round()
    assert sent == ids[:20] + ids[21:]
    position = positions.find(RECEIVER, "org_1")
    assert (position.exported, position.dropped) == (39, 1)
    assert caplog.text.count("refuses calls, which are dropped") == 1
    assert "code: 400" in caplog.text
    assert sent.sizes[-1] > 1, "batches grow again"


def test_a_receiver_that_refuses_everything_gets_each_call_alone_once_and_nothing_waits(
    make, record, sent, positions, monkeypatch
):
    monkeypatch.setattr(follower_module, "BATCH", 8)
    ids = record(20)
    sent.refused = set(ids)
    follower = make()
    follower.run_round()
    assert (sent, sent.sizes) == ([], [8, 4, 2, *[1] * 20])
    assert positions.find(RECEIVER, "org_1").dropped == 20
    later = record(3)
    follower.run_round()
    follower.run_round()
    assert sent == later
