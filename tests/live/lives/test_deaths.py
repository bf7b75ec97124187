"""Whatever dies or stops, at whatever moment: no entry is lost, none is doubled, bodies are exact.

``tests/faults`` has what dies, stands still or is locked while clients go on calling.
"""

import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.live.lives.streams import (
    Stream,
    assert_interrupted_by_restart,
    events_of,
    numbered,
    rows_by_number,
)
from tests.live.service import Endpoint
from tests.upstream import message_json, sse, wait_until


def becomes_a_file(folder: Path) -> bool:
    """Put a file in the place of a folder, and return whether it is there: its owner may be quicker, who
    looks now and then, and makes the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(FileExistsError):
        folder.touch(exist_ok=False)
    return folder.is_file()


def test_a_spool_that_cannot_be_written_fails_nobody_and_is_loud(crashing: Endpoint) -> None:
    service = crashing.service
    crashing.send(numbered(crashing, 0))
    assert set(rows_by_number(crashing.rows())) == {0}
    complaints = service.output.count("spool")
    spool = service.data_dir / "spool"
    service.wait_until(lambda: becomes_a_file(spool), "a file in the place of the spool")
    assert crashing.send(numbered(crashing, 1)).body == message_json()
    crashing.upstream.enqueue(sse(events_of(2)))
    assert crashing.send(numbered(crashing, 2)).body == b"".join(events_of(2))
    service.wait_until(lambda: service.output.count("spool") > complaints, "a complaint")
    spool.unlink()
    assert crashing.send(numbered(crashing, 3)).status == 200
    assert set(rows_by_number(service.wait_for_rows(2, crashing.slug))) == {0, 3}


def test_a_second_interrupt_ends_at_once_and_the_next_start_keeps_everything(
    ending: Endpoint, open_streams: Callable[..., list[Stream]]
) -> None:
    service = ending.service
    streams = open_streams(ending, 3)
    service.signal(signal.SIGINT)
    wait_until(service.refuses, "the front door to be closed")
    service.signal(signal.SIGINT)
    service.wait()
    for stream in streams:
        stream.assert_cut()
    service.start()
    rows = rows_by_number(ending.rows())
    assert set(rows) == {0, 1, 2}
    for stream in streams:
        assert_interrupted_by_restart(rows[stream.number], stream)
