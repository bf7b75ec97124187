"""A disk that is really full, down to its last byte: usage is kept all the same.

It takes a small file system, which only root may mount. How each part behaves when there is no room is
tested without one, beside the part.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from runtime.reserve_file import SMALLEST_SHARE
from store.traces.database import TraceDatabase
from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service, body_bytes
from tests.small_disk import CannotMountError, fill, mounted
from tests.upstream import Gate, SeenRequest, Upstream, message_events, sse

STREAMS, DURING = 30, 10


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 100 MB, of which recorder and proxy may each reserve 5."""
    folder = tmp_path_factory.mktemp("disk")
    with ExitStack() as stack:
        try:
            stack.enter_context(mounted(folder, 100))
        except CannotMountError:
            pytest.skip("only root may mount the small file system that this takes; run it as root")
        yield folder


@pytest.fixture(scope="module")
def disk_upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream
        assert upstream.faults == []


@pytest.fixture(scope="module")
def service(disk_upstream: Upstream, small_disk: Path) -> Iterator[Service]:
    """A service on it, which lives on whatever happens to its recorder."""
    with Service(small_disk, disk_upstream.url, DISK_RESERVE="100KB") as service:
        yield service


def events(number: int) -> list[bytes]:
    return message_events([f"text of {number} ", "y" * 20_000], output_tokens=number + 1)


def ask(endpoint: Endpoint, number: int) -> bytes:
    body = {"model": "m", "n": number, "stream": True, "padding": "z" * 20_000}
    return endpoint.message(json.dumps(body).encode(), path=f"/v1/messages?n={number}")


def number_of(seen: SeenRequest) -> int:
    return int(seen.target.partition("n=")[2])


def has_reserves(data_dir: Path) -> bool:
    """Return whether recorder and proxy hold all the room that they may, which the last test took."""
    disk = os.statvfs(data_dir)
    most = disk.f_blocks * disk.f_frsize // SMALLEST_SHARE
    found = [data_dir / "recorder.reserve", *data_dir.glob("spool/*/reserve")]
    try:
        return len(found) > 1 and all(each.stat().st_size == most for each in found)
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("is_killed", [False, True], ids=["recorder-lives", "recorder-is-killed"])
def test_the_usage_of_calls_in_flight_and_of_new_ones_is_kept(
    service: Service, disk_upstream: Upstream, small_disk: Path, is_killed: bool
) -> None:
    gates = [Gate() for _ in range(STREAMS)]

    def choose(seen: SeenRequest) -> object:
        number = number_of(seen)
        first, *rest = events(number)
        return sse([first, gates[number], *rest] if number < STREAMS else [first, *rest])

    endpoint = make_new_endpoint(service, disk_upstream)
    disk_upstream.choose = choose  # type: ignore[assignment]
    filler = small_disk / "filler"
    service.wait_until(lambda: has_reserves(service.data_dir), "the reserves")
    clients = [endpoint.connect() for _ in range(STREAMS)]
    for number, client in enumerate(clients):
        client.send(ask(endpoint, number))
        gates[number].wait_reached()
    fill(filler)
    if is_killed:
        service.wait_restarted(service.kill9("recorder"))
        fill(filler)

    for number, client in enumerate(clients):
        gates[number].open()
        assert client.read_response().body == b"".join(events(number))
        client.close()
    for number in range(STREAMS, STREAMS + DURING):
        assert endpoint.send(ask(endpoint, number)).body == b"".join(events(number))
    rows = endpoint.rows()
    with suppress(OSError):  # and nothing is left to others but what these calls gave back
        fill(filler)
    filler.unlink()
    service.wait_healthy()
    last = STREAMS + DURING
    service.wait_until(
        lambda: service.health() == 200 and [*service.data_dir.glob("spool/*/reserve")],
        "health without complaints",
    )
    assert endpoint.send(ask(endpoint, last)).status == 200
    row = endpoint.rows()[-1]
    assert (row["body_notes"], row["output_tokens"]) == (None, last + 1)
    assert body_bytes(row["response_body"]) == b"".join(events(last))
    [path] = service.data_dir.glob("traces/*/traces.db")
    with closing(TraceDatabase(path)) as database:
        assert list(database.verify()) == []

    assert sorted(row["output_tokens"] for row in rows) == [n + 1 for n in range(STREAMS + DURING)]
    assert {(row["outcome"], row["usage_source"]) for row in rows} == {("complete", "final")}
    for row in rows:
        kept = body_bytes(row["response_body"])
        whole = b"".join(events(row["output_tokens"] - 1))
        assert kept == whole or (kept is None and "response not kept" in row["body_notes"])
