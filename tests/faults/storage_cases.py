"""The cases whose faults are of files and clocks: locked, corrupt, full, read-only, torn."""

import os
import random
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from runtime.locks import LockHeldError, ProcessLock
from tests.faults.scene import Case, Scene
from tests.live import command
from tests.small_disk import fill
from tests.upstream import wait_until

PAGE_BYTES = 4096
TORN_BYTES = 40
BUDGET_USD = 0.001


# --- databases ------------------------------------------------------------------------------------


def _lock_traces(scene: Scene) -> None:
    with closing(sqlite3.connect(scene.trace_path, isolation_level=None, timeout=30)) as database:
        database.execute("begin exclusive")
        scene.last()
        database.execute("rollback")


@contextmanager
def _without_recorder(scene: Scene) -> Iterator[None]:
    """Kill the recorder, and keep the next one waiting for the lock within the block."""
    scene.service.kill9("recorder")
    locks: list[ProcessLock] = []

    def take() -> bool:
        with suppress(LockHeldError):
            locks.append(ProcessLock(scene.service.data_dir / "recorder.lock"))
        return bool(locks)

    wait_until(take, "the recorder's lock")
    try:
        yield
    finally:
        locks[0].release()


def _corrupt_traces(scene: Scene) -> None:
    """Overwrite most pages of a trace database. Calls wait in the spool until a copy is put back."""
    path = scene.trace_path
    with _without_recorder(scene):
        good = _overwrite_pages(path, 2)
    wait_until(lambda: "trace database" in " ".join(scene.complaints()), "a complaint")
    environ = command.environment(scene.service)
    said = command.call_here(("doctor",), environ)
    if said.returncode != 1 or path.name not in said.stdout or "restore" not in said.stdout:
        raise AssertionError(f"doctor does not tell of the damage: {said.stdout}{said.stderr}")
    scene.last()
    with _without_recorder(scene):
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        _put_back(path, good)


def _corrupt_control(scene: Scene) -> None:
    """Overwrite most pages of the database of endpoints. Each worker goes by those that it knows."""
    scene.load.wait_for(250)  # so that each knows all
    path = scene.service.data_dir / "control.db"
    good = _overwrite_pages(path, 1)
    try:
        scene.last()
    finally:
        _put_back(path, good)


def _overwrite_pages(path: Path, first: int) -> bytes:
    """Overwrite the pages of a database from this one on, once its log is written back into it; return
    what it was."""
    with closing(sqlite3.connect(path, timeout=30)) as database:
        wait_until(
            lambda: database.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0,
            "a write-ahead log that is written back",
        )
    good = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(first * PAGE_BYTES)
        file.write(b"\xa5" * (len(good) - first * PAGE_BYTES))
    return good


def _put_back(path: Path, good: bytes) -> None:
    with path.open("r+b") as file:
        file.write(good)


# --- the disk -------------------------------------------------------------------------------------


def _fill_disk(scene: Scene) -> None:
    """Leave not one byte on the file system of the data directory, which must be a small one."""
    filler = scene.service.data_dir.parent / "filler"
    try:
        fill(filler)
        scene.last()
    finally:
        filler.unlink()


def _forbid_writing(scene: Scene) -> None:
    """Make all folders of the data directory read-only."""
    folders = [scene.service.data_dir, *filter(Path.is_dir, scene.service.data_dir.rglob("*"))]
    modes = [folder.stat().st_mode for folder in folders]
    for folder in folders:
        folder.chmod(0o500)
    try:
        scene.last()
    finally:
        for folder, mode in zip(folders, modes, strict=True):
            folder.chmod(mode)


def _lose_power(scene: Scene) -> None:
    """Kill everything at once, and take back what a disk may not have yet: the ends of files in flight,
    the removal of files that were recorded, and half of a frame in the write-ahead log."""
    service, dice = scene.service, random.Random(scene.load.begun)  # noqa: S311
    with scene.everybody_excused():
        recorder = psutil.Process(service.pids()["recorder"])
        recorder.suspend()
        scene.load.wait_for(20)
        waiting = {path: path.read_bytes() for path in scene.find_spool_files(".done")}
        recorder.resume()
        wait_until(lambda: not any(path.exists() for path in waiting), "the recorder")
        everything = [psutil.Process(service.pid), *psutil.Process(service.pid).children(True)]
        for process in everything:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        service.wait()
        psutil.wait_procs(everything, timeout=60)
        for path, data in waiting.items():
            path.write_bytes(data)
        for path in scene.find_spool_files(".open"):
            _tear(path, dice)
        with scene.trace_path.with_name("traces.db-wal").open("ab") as log:
            log.write(dice.randbytes(2000))
        service.start()


def _tear(path: Path, dice: random.Random) -> None:
    """Cut the end of a file whose response has begun, and add zeros to some."""
    data = path.read_bytes()
    beginning = data.find(b"message_start")
    if beginning < 0:
        return
    with path.open("r+b") as file:
        file.truncate(max(beginning, len(data) - dice.randrange(1, TORN_BYTES)))
        file.seek(0, os.SEEK_END)
        file.write(bytes(dice.choice((0, 512))))


# --- the clock ------------------------------------------------------------------------------------


def _set_clock(scene: Scene) -> None:
    """Set the clock of the whole service a day ahead, two days back, and right again."""
    if scene.clock_file is None:
        raise AssertionError("the service was started without libfaketime")
    for offset in ("+86400", "-86400", "+0"):
        scene.clock_file.write_text(offset)
        scene.last()
    days = {row["created_at"][:10] for row in scene.service.rows("load-%")}
    if len(days) < 3:
        raise AssertionError(f"the clock of the service was not set: its calls are of {days}")


# --- budgets --------------------------------------------------------------------------------------


def _kill_with_a_budget(scene: Scene) -> None:
    """Use up a budget, kill what knows of it, and see that calls are still refused and sums right."""
    service = scene.service
    slug = f"budget-{scene.load.begun}"
    service.create_endpoint(slug)
    service.set_budget(slug, limit_usd=BUDGET_USD)
    target, made = f"/proxy/{slug}/v1/messages", 0
    while scene.post(target) == 200:
        made += 1
        service.wait_for_rows(made, slug)  # what is spent is known a moment after
        if made > 250:
            raise AssertionError("the budget is never used up")
    scene.kill_workers_and_recorder()
    if (status := scene.post(target)) != 429:
        raise AssertionError(f"after kill -9 a call beyond the budget got {status}")
    rows = service.wait_for_rows(made, slug)
    cents = sum(row["cost_cents"] for row in rows)
    if len(rows) != made or cents < 100 * BUDGET_USD:
        raise AssertionError(f"{made} calls were made, {len(rows)} rows cost {cents} cents")


STORAGE_CASES: Sequence[Case] = (
    Case("trace database locked", _lock_traces),
    Case("trace database corrupt", _corrupt_traces, in_suite=False),
    Case("control database corrupt", _corrupt_control, in_suite=False),
    Case("disk full", _fill_disk, in_suite=False, needs="small disk", may_miss_bytes=True),
    Case("data directory read-only", _forbid_writing),
    Case("loss of power", _lose_power, in_suite=False, may_miss_bytes=True),
    Case("clock jumps", _set_clock, in_suite=False, needs="clock"),
    Case("kill -9 with a budget", _kill_with_a_budget),
)
