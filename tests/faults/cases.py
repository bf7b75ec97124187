"""The cases whose faults are of processes and of the upstream."""

import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import psutil

from tests.faults.scene import Case, Scene
from tests.faults.storage_cases import STORAGE_CASES
from tests.faults.traffic import Plan
from tests.live.service import Child
from tests.upstream import (
    CLOSE,
    RESET,
    STALL,
    Script,
    answer,
    cut_sse,
    sse,
    wait_until,
)

SPOILED = 5  # every fifth call
FLOOD_BYTES = 24 * 1024 * 1024
PRESSING_BYTES = 6 * 1024 * 1024


# --- processes that end --------------------------------------------------------------------------


def _end(number: signal.Signals, *names: Child) -> Callable[[Scene], None]:
    return lambda scene: scene.end(number, *names)


def _end_worker(number: signal.Signals) -> Callable[[Scene], None]:
    return lambda scene: scene.end_worker(number)


def _kill_query_process(scene: Scene) -> None:
    pids = scene.service.query_pids()
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: pids[0] not in scene.service.query_pids(), "the end of a query process")


def _restart(scene: Scene, number: signal.Signals) -> None:
    """End the service, and start it again."""
    service = scene.service
    with scene.everybody_excused():
        children = psutil.Process(service.pid).children(recursive=True)
        service.signal(number)
        service.wait()
        psutil.wait_procs(children, timeout=60)
        service.start()


# --- processes that stand still, or lack something ------------------------------------------------


def _stop_recorder(scene: Scene) -> None:
    recorder = psutil.Process(scene.service.pids()["recorder"])
    recorder.suspend()
    try:
        scene.last()
    finally:
        recorder.resume()


def _stop_worker(scene: Scene) -> None:
    """Stop a worker: the calls on its connections wait, those of the other go on."""
    worker = scene.stop_worker()
    try:
        scene.load.wait_for(30)
    finally:
        worker.resume()


def _exhaust_descriptors(scene: Scene) -> None:
    """Leave no process of the service a descriptor. Calls may fail, and are not forwarded then."""
    pids = [scene.service.pids()["recorder"], *scene.service.worker_pids()]
    processes = [psutil.Process(pid) for pid in pids]
    limits = [process.rlimit(psutil.RLIMIT_NOFILE) for process in processes]
    with scene.everybody_excused():
        for process, (_, hard) in zip(processes, limits, strict=True):
            process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() + 2, hard))
        try:
            scene.last()
        finally:
            for process, limit in zip(processes, limits, strict=True):
                process.rlimit(psutil.RLIMIT_NOFILE, limit)
        scene.service.wait_healthy()


def _press_recorder(scene: Scene) -> None:
    _press_memory(scene, {scene.service.pids()["recorder"]})


def _press_workers(scene: Scene) -> None:
    with scene.everybody_excused():
        _press_memory(scene, scene.service.worker_pids())
        scene.service.wait_healthy()


def _press_memory(scene: Scene, pids: set[int]) -> None:
    """Leave processes no memory to grow into, while some calls have bodies of megabytes."""
    processes = [psutil.Process(pid) for pid in pids]
    for process in processes:
        process.rlimit(psutil.RLIMIT_AS, (process.memory_info().vms, resource.RLIM_INFINITY))
    scene.load.spoil = lambda plan: _send_megabytes(plan) if plan.number % SPOILED == 0 else None
    try:
        scene.last()
    finally:
        scene.load.spoil = None
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                process.rlimit(psutil.RLIMIT_AS, unlimited)


def _send_megabytes(plan: Plan) -> tuple[Script, bytes]:
    body = b'"' + b"m" * PRESSING_BYTES + b'"'
    return answer(200, body), body


# --- the upstream ---------------------------------------------------------------------------------


def _spoil(make: Callable[[Plan], tuple[Script, bytes]]) -> Callable[[Scene], None]:
    """Let upstream treat every fifth call like this."""

    def do(scene: Scene) -> None:
        scene.load.spoil = lambda plan: make(plan) if plan.number % SPOILED == 0 else None
        scene.load.wait_for(SPOILED * 7)
        scene.load.spoil = None

    return do


def _cut(plan: Plan, end: object = CLOSE) -> tuple[Script, bytes]:
    half = plan.response[: len(plan.response) // 2]
    return cut_sse([half], end), half  # type: ignore[arg-type]


def _send_garbage(plan: Plan) -> tuple[Script, bytes]:
    if plan.number % 2:
        return Script((b"\x00\x01garbage\r\n\r\n", CLOSE)), b""
    broken = cut_sse([plan.response], CLOSE)
    return Script((*broken.steps[:-1], b"zz\r\ngarbage\r\n", CLOSE)), plan.response


def _flood(plan: Plan) -> tuple[Script, bytes]:
    """Send far more than a message is, to every fiftieth call, and cut the others."""
    if plan.number % (SPOILED * 10):
        return _cut(plan)
    body = b"data: " + b"f" * FLOOD_BYTES
    return sse([body]), body


def _refuse(scene: Scene) -> None:
    with scene.everybody_excused():
        scene.upstream.refuse()
        try:
            scene.load.wait_for(30)
        finally:
            scene.upstream.accept()


KILL, TERM = signal.SIGKILL, signal.SIGTERM
CASES: Sequence[Case] = (
    Case("nothing, to compare with", Scene.last, in_suite=False),
    Case("kill -9 of a worker", _end_worker(KILL)),
    Case("kill -9 of the recorder", _end(KILL, "recorder"), in_suite=False),
    Case("kill -9 of the web process", _end(KILL, "web"), in_suite=False),
    Case("kill -9 of the query pool", _end(KILL, "queries"), in_suite=False),
    Case("kill -9 of a query process", _kill_query_process, in_suite=False),
    Case(
        "kill -9 of all workers and the recorder", Scene.kill_workers_and_recorder, in_suite=False
    ),
    Case("kill -9 of up", partial(_restart, number=KILL), in_suite=False),
    Case("TERM to a worker", _end_worker(TERM), in_suite=False),
    Case("TERM to the recorder", _end(TERM, "recorder"), in_suite=False),
    Case("TERM to the web process", _end(TERM, "web"), in_suite=False),
    Case("TERM to the query pool", _end(TERM, "queries"), in_suite=False),
    Case("TERM to up", partial(_restart, number=TERM), in_suite=False),
    Case("recorder stands still", _stop_recorder),
    Case("a worker stands still", _stop_worker, in_suite=False),
    Case("no descriptors", _exhaust_descriptors),
    Case("no memory for the recorder", _press_recorder, in_suite=False),
    Case("no memory for the workers", _press_workers, in_suite=False),
    Case("upstream cuts", _spoil(_cut)),
    Case("upstream resets", _spoil(partial(_cut, end=RESET)), in_suite=False),
    Case("upstream stalls", _spoil(partial(_cut, end=STALL)), in_suite=False),
    Case("upstream sends garbage", _spoil(_send_garbage)),
    Case("upstream floods", _spoil(_flood), in_suite=False),
    Case("upstream refuses connections", _refuse, in_suite=False),
    *STORAGE_CASES,
)
