import fcntl
import os
from contextlib import suppress
from dataclasses import asdict, fields

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from store.spool import reader
from store.spool.format import (
    DONE,
    FRAME,
    LOCK,
    RESERVE,
    Ending,
    RequestHead,
    ResponseHead,
    SpoolError,
    measure_request,
    parse_exchange,
)
from store.spool.writer import SpoolRun
from tests.store.spool.heads import make_head


def write_exchange(run, entry_id="0001", **head):
    file = run.create(make_head(entry_id, **head), b'{"model":"m"}')
    file.write_response_head(ResponseHead(status_code=200), 1.25)
    file.write_chunk(b"hello ", 2.0)
    file.write_chunk(b"world", 3.5)
    return file


def test_the_file_of_an_older_proxy_is_read_and_what_it_did_not_note_is_none(root, run):
    """It was written before there were any of the fields that have a default."""
    head = {
        "entry_id": "0001", "created_at": "2026-01-02T03:04:05.678Z", "organization_id": "org",
        "proxy_endpoint_id": "endpoint", "slug": "default", "metadata_only": False,
        "request_bytes": 2, "request_body": "whole", "credential_hmac": None,
        "content_encoding": None, "user_agent": "claude-cli/2.1", "session_id": "s",
        "agent_id": None, "retry_count": None,
    }  # fmt: skip
    parts = (
        (b"H", orjson.dumps(head)),
        (b"Q", b"{}"),
        (b"R", b'{"status_code":200,"content_type":null,"content_encoding":null,"upstream_request_id":null}'),
        (b"C", b"hello"),
        (b"E", b'{"outcome":"complete","error_type":null,"duration_ms":1.0,"proxy_overhead_ms":0.1,"response_bytes":5,"response_lost":false}'),
    )  # fmt: skip
    data = b"".join(FRAME.pack(kind, 1.0, len(body)) + body for kind, body in parts)
    exchange = parse_exchange(data)
    assert exchange is not None
    assert (exchange.head.user_agent, exchange.response_body) == ("claude-cli/2.1", b"hello")
    names = (field.name for field in fields(RequestHead) if field.name not in head)
    noted = {getattr(exchange.head, name) for name in names if name != "record"}
    assert (noted, exchange.head.record) == ({None}, "messages")
    assert exchange.response == ResponseHead(status_code=200)


@pytest.mark.parametrize("head", [{"slug": "default"}, "no object", ["pair"]])
def test_a_head_without_the_fields_that_every_proxy_writes_is_an_error(head):
    payload = orjson.dumps(head)
    with pytest.raises(SpoolError):
        parse_exchange(FRAME.pack(b"H", 0.0, len(payload)) + payload + FRAME.pack(b"Q", 0.0, 0))


def test_a_head_with_an_unknown_field_is_an_error():
    payload = orjson.dumps({**asdict(make_head()), "unknown": 1})
    with pytest.raises(SpoolError, match="unknown"):
        parse_exchange(FRAME.pack(b"H", 0.0, len(payload)) + payload + FRAME.pack(b"Q", 0.0, 0))


def test_a_finished_file_waits_and_an_open_one_of_a_living_run_does_not(root, run):
    write_exchange(run, "0002").finish(Ending(outcome="complete"), 4.0)
    still_open = write_exchange(run, "0001")
    assert [waiting.entry_id for waiting in reader.find_waiting(root)] == ["0002"]
    still_open.close()


@pytest.mark.parametrize("has_lock", [True, False])
def test_when_its_run_is_gone_an_open_file_waits_with_all_that_had_come(root, has_lock):
    run = SpoolRun(root)
    write_exchange(run).close()
    run.close()
    if not has_lock:
        (run.path / LOCK).unlink()
    (waiting,) = reader.find_waiting(root)
    exchange = reader.read_exchange(waiting.path)
    assert exchange is not None
    assert exchange.response_body == b"hello world"
    assert exchange.ending == Ending(outcome="proxy_restarted", duration_ms=3.5, response_bytes=11)


def test_oldest_arrivals_come_first(root, run):
    for entry_id in ("0003", "0001", "0002"):
        write_exchange(run, entry_id).finish(Ending(outcome="complete"), 1.0)
    assert [w.entry_id for w in reader.find_waiting(root)] == ["0001", "0002", "0003"]


def spooled_bytes(root):
    run = SpoolRun(root)
    file = write_exchange(run)
    file.finish(Ending(outcome="complete", response_bytes=11), 4.0)
    data = file.path.with_suffix(DONE).read_bytes()
    run.close()
    return data


def test_a_file_cut_anywhere_gives_what_is_whole_and_never_fails(root):
    data = spooled_bytes(root)
    bodies: list[bytes] = []
    for length in range(len(data)):
        exchange = parse_exchange(data[:length])
        if exchange is None:
            assert not bodies, "once forwarded, always an entry"
            continue
        assert exchange.request_body == b'{"model":"m"}'
        assert b"hello world".startswith(exchange.response_body)
        bodies.append(exchange.response_body)
    assert bodies == sorted(bodies, key=len)
    whole = parse_exchange(data)
    assert whole is not None
    assert whole.ending.outcome == "complete"


def spool_file():
    """Return the bytes of a spool file, and where the payloads of its bodies are."""
    head = orjson.dumps(asdict(make_head()))
    ending = orjson.dumps(asdict(Ending(outcome="complete", response_bytes=11)))
    frames = ((b"H", head), (b"Q", b'{"model":"m"}'), (b"R", b'{"status_code":200}'),
              (b"C", b"hello "), (b"C", b"world"), (b"E", ending))  # fmt: skip
    data = b""
    bodies: set[int] = set()
    for kind, payload in frames:
        data += FRAME.pack(kind, 1.0, len(payload))
        if kind in b"QC":
            bodies.update(range(len(data), len(data) + len(payload)))
        data += payload
    return data, bodies


@settings(max_examples=15)
@given(st.integers(1, 255))
def test_a_damaged_byte_is_a_spool_error_or_changes_no_more_than_itself(damage):
    data, bodies = spool_file()
    whole = parse_exchange(data)
    assert whole is not None
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= damage
        try:
            exchange = parse_exchange(bytes(damaged))
        except SpoolError:
            continue
        if exchange is not None and position in bodies:
            assert len(exchange.request_body or b"") == len(whole.request_body or b"")
            assert len(exchange.response_body) == len(whole.response_body)


@given(st.binary(max_size=200))
def test_garbage_is_a_spool_error_or_nothing_at_all(data):
    with suppress(SpoolError):
        assert parse_exchange(data) is None


def test_zeros_after_a_loss_of_power_are_no_part_of_the_response(root):
    data = spooled_bytes(root)
    for end in range(measure_request(data), len(data) + 1):
        exchange = parse_exchange(data[:end] + bytes(512))
        assert exchange is not None
        assert b"hello world".startswith(exchange.response_body)


def test_an_empty_or_headless_file_was_never_forwarded(root, run):
    path = run.path / "0001~org.open"
    path.write_bytes(b"")
    assert reader.read_exchange(path) is None


def test_a_run_shows_only_when_it_is_locked(root, run):
    with (run.path / "lock").open("rb") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_empty_folder_is_removed_only_when_its_run_is_gone(root):
    run = SpoolRun(root)
    reader.remove_empty_runs(root)
    assert run.path.is_dir()
    assert reader.has_live_runs(root)
    run.close()
    assert not reader.has_live_runs(root)
    reader.remove_empty_runs(root)
    assert not run.path.exists()


def test_a_folder_with_files_left_is_kept(root):
    run = SpoolRun(root)
    write_exchange(run).close()
    run.close()
    reader.remove_empty_runs(root)
    assert len(list(reader.find_waiting(root))) == 1


@pytest.mark.parametrize("has_files", [True, False])
def test_the_reserve_of_a_run_that_was_killed_is_given_back(root, has_files):
    run = SpoolRun(root)
    run.reserve.fill()
    if has_files:
        write_exchange(run).close()
    reader.remove_empty_runs(root)
    assert (run.path / RESERVE).exists(), "it lives"
    os.close(run._lock_fd)  # as the kernel does it
    reader.remove_empty_runs(root)
    assert not (run.path / RESERVE).exists()
    assert run.path.exists() == has_files
    assert len(list(reader.find_waiting(root))) == has_files


def test_a_file_set_aside_waits_no_more_but_is_kept(root, run):
    write_exchange(run).finish(Ending(outcome="complete"), 1.0)
    (waiting,) = reader.find_waiting(root)
    target = reader.set_aside(root, waiting.path)
    assert target.exists()
    assert list(reader.find_waiting(root)) == []
    assert reader.count_unreadable(root) == 1


def test_two_files_of_the_same_name_are_both_kept_aside(root, run):
    for _ in range(2):
        write_exchange(run).finish(Ending(outcome="complete"), 1.0)
        (waiting,) = reader.find_waiting(root)
        reader.set_aside(root, waiting.path)
    assert reader.count_unreadable(root) == 2


def test_links_that_lead_nowhere_are_both_kept_aside(root, run):
    for _ in range(2):
        (run.path / "0~a.done").symlink_to("nowhere")
        reader.set_aside(root, run.path / "0~a.done")
    assert reader.count_unreadable(root) == 2


def test_what_is_spooled_is_readable_by_its_owner_only(root, run):
    file = write_exchange(run)
    assert file.path.stat().st_mode & 0o077 == 0
    assert run.path.stat().st_mode & 0o077 == 0
    file.close()


def test_an_entry_that_exists_is_not_overwritten(run):
    write_exchange(run).close()
    with pytest.raises(FileExistsError):
        write_exchange(run)


def test_files_of_strangers_in_the_folder_are_left_alone(root, run):
    (run.path / "notes.txt").write_text("mine")
    assert list(reader.find_waiting(root)) == []
    assert os.listdir(run.path).count("notes.txt") == 1  # noqa: PTH208


@pytest.mark.parametrize("data", [b"", b"J", b"J\0\0\0\0\0\0\0\0\0\0\0\3{}", b"X" * 40])
def test_a_broken_record_of_rejections_is_a_spool_error(root, data, tmp_path):
    path = tmp_path / "x~rejections.done"
    path.write_bytes(data)
    with pytest.raises(SpoolError):
        reader.read_rejections(path)


def test_a_file_handed_over_without_its_ending_was_complete_on_the_wire(root, run):
    file = write_exchange(run)
    file.close()
    done = file.path.rename(file.path.with_suffix(DONE))
    exchange = reader.read_exchange(done)
    assert exchange is not None
    assert (exchange.ending.outcome, exchange.ending.response_lost) == ("complete", True)


@pytest.mark.parametrize("oddity", ["file", "lock is a folder"])
def test_an_odd_thing_in_the_spool_keeps_nobody_waiting(root, run, oddity):
    write_exchange(run).finish(Ending(outcome="complete"), 1.0)
    odd = root / "0000-odd"
    if oddity == "file":
        odd.write_text("not a folder")
    else:
        (odd / "lock").mkdir(parents=True)
        (odd / "0000~org.open").write_bytes(b"")
    assert [waiting.entry_id for waiting in reader.find_waiting(root)] == ["0001"]
    reader.remove_empty_runs(root)
    assert odd.exists()


def list_open_files():
    """Return the paths of the files that this process has open, none where there is no /proc."""
    found = []
    with suppress(FileNotFoundError):
        for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208
            with suppress(OSError):  # that of the list itself
                found.append(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    return found


def test_a_run_that_cannot_be_locked_leaves_nothing_behind(root, monkeypatch):
    def refuse(_fd, _operation):
        raise OSError(37, "No locks available")

    with monkeypatch.context() as broken:
        broken.setattr("store.spool.writer.fcntl.flock", refuse)
        for _ in range(3):
            with pytest.raises(OSError, match="No locks"):
                SpoolRun(root)
    assert list(root.iterdir()) == []
    assert [path for path in list_open_files() if str(root) in path] == []
