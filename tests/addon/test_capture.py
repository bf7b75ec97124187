import errno
import json
import os
import shutil
from dataclasses import replace

import pytest

from addon.capture import Spooler
from metering.request_facts import RequestFacts
from runtime import clock
from store.spool import reader
from store.spool.format import REJECTIONS, Ending
from tests.addon.endpoints import ENDPOINT

ARRIVED_AT = clock.parse_instant("2026-01-02T03:04:05.678Z")


def open_capture(spooler, body=b"{}", fields=(), endpoint=ENDPOINT, target="/v1/messages"):
    return spooler.open(endpoint, ARRIVED_AT, fields, body, target)


@pytest.fixture
def spooler(tmp_path):
    spooler = Spooler(tmp_path / "spool", 0, b"key", "acme")
    yield spooler
    spooler.close()


def read_all(root):
    return [reader.read_exchange(waiting.path) for waiting in reader.find_waiting(root)]


def fail(number):
    def call(*_):
        raise OSError(number, os.strerror(number))

    return call


def fail_with(monkeypatch, number):
    monkeypatch.setattr("store.spool.writer.os.writev", fail(number))


def test_an_exchange_is_kept_in_the_order_it_happened(spooler, tmp_path):
    capture = open_capture(spooler)
    capture.response_head(200, (), 1.5)
    capture.chunk(b"ab", 2.0)
    capture.chunk(b"cd", 3.0)
    assert read_all(tmp_path / "spool") == []
    capture.finish(Ending(outcome="complete", response_bytes=4), 3.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert (exchange.request_body, exchange.response_body) == (b"{}", b"abcd")
    assert (exchange.ttfb_ms, exchange.last_byte_ms) == (1.5, 3.0)
    assert exchange.ending.outcome == "complete"


def test_a_full_disk_costs_no_call_and_is_loud(spooler, monkeypatch, caplog):
    fail_with(monkeypatch, errno.ENOSPC)
    assert open_capture(spooler) is None
    assert open_capture(spooler) is None
    assert spooler.troubles.calls_not_kept == 2
    assert "No space left" in (spooler.troubles.current or "")
    assert caplog.text.count("IMPAIRED") == 1


def test_logging_works_again_once_the_disk_does(spooler, monkeypatch, caplog):
    with monkeypatch.context() as broken:
        fail_with(broken, errno.EIO)
        open_capture(spooler)
    assert open_capture(spooler) is not None
    assert spooler.troubles.current is None
    assert "works again" in caplog.text


def test_a_response_that_does_not_fit_leaves_the_entry_and_says_so(spooler, tmp_path, monkeypatch):
    capture = open_capture(spooler)
    capture.response_head(200, (), 1.0)
    capture.chunk(b"first", 1.0)
    with monkeypatch.context() as broken:
        fail_with(broken, errno.ENOSPC)
        capture.chunk(b"lost", 2.0)
    capture.chunk(b"after the hole", 3.0)
    capture.finish(Ending(outcome="complete", response_bytes=23), 3.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.response_body == b"first"
    assert exchange.ending.response_lost
    assert spooler.troubles.responses_not_kept == 1


def test_an_ending_that_does_not_fit_still_hands_the_file_over(spooler, tmp_path, monkeypatch):
    capture = open_capture(spooler)
    capture.chunk(b"text", 1.0)
    with monkeypatch.context() as broken:
        fail_with(broken, errno.ENOSPC)
        capture.finish(Ending(outcome="complete"), 2.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.response_body == b"text"


def test_a_torn_write_is_cut_off_again(spooler, tmp_path, monkeypatch):
    capture = open_capture(spooler)
    real = os.writev
    with monkeypatch.context() as broken:
        broken.setattr(
            "store.spool.writer.os.writev",
            lambda fd, parts: real(fd, [b"".join(parts)[:7]]),
        )
        capture.chunk(b"torn", 1.0)
    capture.finish(Ending(outcome="complete"), 2.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.response_body == b""
    assert exchange.ending.outcome == "complete"


def test_below_the_disk_reserve_request_bodies_are_not_kept(tmp_path, caplog):
    spooler = Spooler(tmp_path / "spool", 10**18, b"key", "acme")
    spooler.check_disk()
    capture = open_capture(spooler)
    assert capture is not None
    capture.finish(Ending(outcome="complete"), 1.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.request_body is None
    assert exchange.head.request_bytes == 2
    assert spooler.troubles.request_bodies_not_kept == 1
    assert "below the reserve" in (spooler.troubles.current or "")
    assert "IMPAIRED" in caplog.text
    spooler.close()


class FullDisk:
    """A disk of which all files in the spool together take no more than ``capacity`` bytes."""

    def __init__(self, root, monkeypatch):
        self._root = root
        self._writev = os.writev
        self.capacity = 0
        monkeypatch.setattr("store.spool.writer.os.writev", self._write)

    @property
    def used(self):
        return sum(path.stat().st_size for path in self._root.rglob("*"))

    def _write(self, fd, parts):
        if self.used + sum(len(part) for part in parts) > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._writev(fd, parts)


@pytest.fixture
def full_disk(spooler, tmp_path, monkeypatch):
    disk = FullDisk(tmp_path / "spool", monkeypatch)
    disk.capacity = 10**12
    spooler.check_disk()
    return disk


def test_on_a_full_disk_responses_in_flight_take_the_room_of_the_reserve(
    spooler, tmp_path, full_disk
):
    captures = [open_capture(spooler) for _ in range(20)]
    full_disk.capacity = full_disk.used
    for capture in captures:
        capture.response_head(200, (), 1.0)
        for _ in range(10):
            capture.chunk(b"x" * 10_000, 2.0)
        capture.finish(Ending(outcome="complete", response_bytes=100_000), 3.0)
    exchanges = read_all(tmp_path / "spool")
    assert [len(exchange.response_body) for exchange in exchanges] == [100_000] * 20
    assert {exchange.ending.response_lost for exchange in exchanges} == {False}
    assert full_disk.used <= full_disk.capacity
    assert spooler.troubles.responses_not_kept == 0


def test_on_a_full_disk_new_calls_are_kept_without_their_request(spooler, tmp_path, full_disk):
    full_disk.capacity = full_disk.used
    body = b'{"model":"m"}' + b" " * 9_987
    for _ in range(2):
        open_capture(spooler, body=body).finish(Ending(outcome="complete"), 1.0)
    exchanges = read_all(tmp_path / "spool")
    assert [exchange.request_body for exchange in exchanges] == [None, None]
    assert [exchange.head.request_model for exchange in exchanges] == ["m", "m"]
    assert [exchange.head.request_bytes for exchange in exchanges] == [10_000] * 2
    assert spooler.troubles.request_bodies_not_kept == 2
    assert "request bodies are not kept" in (spooler.troubles.current or "")


def test_when_there_is_room_again_all_is_kept_again(spooler, tmp_path, full_disk):
    full_disk.capacity = full_disk.used
    open_capture(spooler, body=b"x" * 10_000).finish(Ending(outcome="complete"), 1.0)
    full_disk.capacity = 10**12
    spooler.check_disk()
    assert spooler.troubles.current is None
    open_capture(spooler, body=b"x").finish(Ending(outcome="complete"), 1.0)
    assert read_all(tmp_path / "spool")[-1].request_body == b"x"
    (reserve,) = (tmp_path / "spool").glob("*/reserve")
    assert reserve.stat().st_size > 10_000_000


def test_when_the_reserve_is_spent_too_the_entry_says_what_is_lost(spooler, tmp_path, full_disk):
    capture = open_capture(spooler)
    capture.response_head(200, (), 1.0)
    full_disk.capacity = full_disk.used
    for _ in range(100):
        capture.chunk(b"x" * 1_000_000, 2.0)
    capture.finish(Ending(outcome="complete", response_bytes=100_000_000), 3.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert len(exchange.response_body) > 30_000_000
    assert exchange.ending.response_lost
    assert spooler.troubles.responses_not_kept == 1


def test_a_spool_folder_that_was_removed_is_made_again(spooler, tmp_path):
    for path in (tmp_path / "spool").rglob("lock"):
        path.unlink()
        path.parent.rmdir()
    capture = open_capture(spooler)
    capture.finish(Ending(outcome="complete"), 1.0)
    assert len(read_all(tmp_path / "spool")) == 1


def test_while_no_calls_come_a_removed_spool_folder_is_no_trouble(spooler, tmp_path):
    spooler.check_disk()
    shutil.rmtree(tmp_path / "spool")
    spooler.check_disk()
    assert spooler.troubles.current is None
    assert len(list((tmp_path / "spool").glob("*/lock"))) == 1


def test_while_no_calls_come_a_trouble_that_passed_is_over(spooler, monkeypatch, caplog):
    with monkeypatch.context() as failing:
        failing.setattr("addon.capture.os.statvfs", fail(errno.EMFILE))
        spooler.check_disk()
    assert "Too many open files" in (spooler.troubles.current or "")
    spooler.check_disk()
    assert spooler.troubles.current is None
    assert "works again" in caplog.text


def test_while_no_calls_come_a_check_that_can_write_ends_a_trouble_of_writing(
    spooler, tmp_path, monkeypatch
):
    with monkeypatch.context() as failing:
        fail_with(failing, errno.EIO)
        assert open_capture(spooler) is None
        spooler.check_disk()
        assert spooler.troubles.current is not None
    spooler.check_disk()
    assert spooler.troubles.current is None
    assert not list((tmp_path / "spool").glob("*/*~*"))


def test_rejections_that_could_not_be_written_are_kept_for_the_next_time(
    spooler, tmp_path, monkeypatch
):
    spooler.count_rejection("org", "endpoint", "default", "messages")
    with monkeypatch.context() as failing:
        failing.setattr("store.spool.writer.Path.write_bytes", fail(errno.EIO))
        spooler.flush_rejections()
    assert spooler.troubles.current is not None
    spooler.flush_rejections()
    assert len(list((tmp_path / "spool").glob("*/*~rejections.done"))) == 1


def test_where_no_reserve_can_be_made_the_disk_is_watched_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("runtime.reserve_file.os.posix_fallocate", fail(errno.EACCES))
    spooler = Spooler(tmp_path / "spool", 10**18, b"key", "acme")
    spooler.check_disk()
    assert "below the reserve" in (spooler.troubles.current or "")
    spooler.close()


def test_where_no_reserve_can_be_made_the_service_is_well(spooler, monkeypatch):
    monkeypatch.setattr("runtime.reserve_file.os.posix_fallocate", fail(errno.EACCES))
    spooler.check_disk()
    assert spooler.troubles.current is None


def test_a_discarded_exchange_leaves_nothing(spooler, tmp_path):
    open_capture(spooler).discard()
    assert [path.name for path in (tmp_path / "spool").rglob("*") if path.is_file()] == ["lock"]


def test_rejections_are_summed_and_flushed_once(spooler, tmp_path):
    for _ in range(3):
        spooler.count_rejection("org", "endpoint", "default", "messages")
    spooler.flush_rejections()
    spooler.flush_rejections()
    (waiting,) = reader.find_waiting(tmp_path / "spool")
    assert waiting.owner == REJECTIONS
    (rejection,) = reader.read_rejections(waiting.path)
    assert (rejection.slug, rejection.bucket, rejection.count) == ("default", "messages", 3)


def test_rejections_that_cannot_be_written_are_kept_for_the_next_flush(
    spooler, tmp_path, monkeypatch
):
    spooler.count_rejection("org", "endpoint", "default", "messages")

    def write_bytes(_path, _data):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as broken:
        broken.setattr("pathlib.Path.write_bytes", write_bytes)
        spooler.flush_rejections()
    assert list(reader.find_waiting(tmp_path / "spool")) == []
    spooler.flush_rejections()
    assert len(list(reader.find_waiting(tmp_path / "spool"))) == 1


def test_what_is_kept_of_a_request_is_named_and_holds_no_credential(spooler, tmp_path):
    fields = (
        (b"X-Api-Key", b"sk-ant-secret"),
        (b"User-Agent", b"claude-cli/2.1"),
        (b"x-claude-code-session-id", b"session"),
        (b"cookie", b"also-secret"),
    )
    open_capture(spooler, fields=fields).finish(Ending(outcome="complete"), 1.0)
    (waiting,) = reader.find_waiting(tmp_path / "spool")
    assert b"secret" not in waiting.path.read_bytes()
    exchange = reader.read_exchange(waiting.path)
    assert exchange is not None
    assert (exchange.head.user_agent, exchange.head.session_id) == ("claude-cli/2.1", "session")
    assert exchange.head.created_at == "2026-01-02T03:04:05.678Z"
    assert len(exchange.head.credential_hmac or "") == 32


def test_what_it_takes_to_send_a_request_again_is_kept(spooler, tmp_path):
    fields = (
        (b"Acme-Version", b"2026-10-21"),
        (b"acme-beta", b"a-2025"),
        (b"Acme-Beta", b"b-2026,c"),
        (b"anthropic-version", b"of another vendor"),
    )
    target = "/v1/messages?beta=true&api_key=not-to-be-seen"
    open_capture(spooler, fields=fields, target=target).finish(Ending(outcome="complete"), 1.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.head.path_query == "/v1/messages?beta=true&api_key=REDACTED"
    assert (exchange.head.api_version, exchange.head.betas) == ("2026-10-21", "a-2025,b-2026,c")
    assert b"not-to-be-seen" not in b"".join(
        waiting.path.read_bytes() for waiting in reader.find_waiting(tmp_path / "spool")
    )


def test_an_endpoint_that_keeps_metadata_only_spools_no_request_body(spooler, tmp_path):
    capture = open_capture(spooler, endpoint=replace(ENDPOINT, metadata_only=True))
    capture.finish(Ending(outcome="complete"), 1.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.request_body is None
    assert exchange.head.request_bytes == 2


TEXT_AND_NUMBERS = {
    "model": "claude-x",
    "max_tokens": 100,
    "stream": True,
    "system": "private text",
    "metadata": {"user_id": "user_ab_account__session_5f3c"},
    "tools": [{"name": "private_tool"}],
    "messages": [{"role": "user", "content": "private text"}] * 3,
}


def test_where_bodies_are_not_kept_names_and_numbers_are(spooler, tmp_path):
    endpoint = replace(ENDPOINT, metadata_only=True)
    body = json.dumps(TEXT_AND_NUMBERS).encode()
    open_capture(spooler, body, endpoint=endpoint).finish(Ending(outcome="complete"), 1.0)
    (waiting,) = reader.find_waiting(tmp_path / "spool")
    assert b"private" not in waiting.path.read_bytes()
    assert b"account" not in waiting.path.read_bytes()
    exchange = reader.read_exchange(waiting.path)
    assert exchange is not None
    assert (exchange.head.request_model, exchange.head.session_id) == ("claude-x", "5f3c")
    assert exchange.head.facts == RequestFacts(
        model="claude-x", max_tokens=100, message_count=3, tool_count=1
    )


@pytest.mark.parametrize("text", ["private text", "private" * 15, "private\n", "private:\u00e9"])
def test_where_bodies_are_not_kept_text_is_no_name(spooler, tmp_path, text):
    endpoint = replace(ENDPOINT, metadata_only=True)
    user_id = json.dumps({"session_id": text})
    body = json.dumps({"model": text, "max_tokens": 5, "metadata": {"user_id": user_id}}).encode()
    open_capture(spooler, body, endpoint=endpoint).finish(Ending(outcome="complete"), 1.0)
    (waiting,) = reader.find_waiting(tmp_path / "spool")
    assert b"private" not in waiting.path.read_bytes()
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.head.facts == RequestFacts(max_tokens=5)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", ()),
        (b"not JSON", ()),
        (b'{"model":', ()),
        (b"\x1f\x8b", ()),
        (b'{"model":"m"}', ((b"content-encoding", b"gzip"),)),
        (b"[" * 100_000, ()),
        (b'{"model":"m","a":[' + b"{}," * 200_000 + b"{}]}", ()),
    ],
)
def test_a_body_that_cannot_be_read_costs_the_fields_and_not_the_call(
    spooler, tmp_path, body, fields
):
    endpoint = replace(ENDPOINT, metadata_only=True)
    open_capture(spooler, body, fields, endpoint).finish(Ending(outcome="complete"), 1.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.head.facts == RequestFacts()
    assert exchange.head.request_bytes == len(body)


def test_a_request_too_large_to_be_held_has_no_body_and_no_size(spooler, tmp_path):
    open_capture(spooler, body=None).finish(Ending(outcome="complete"), 1.0)
    (exchange,) = read_all(tmp_path / "spool")
    assert exchange.request_body is None
    assert exchange.head.request_bytes is None
