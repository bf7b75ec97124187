"""Real query processes, asked through the proxy: what is done to them, and who notices."""

import asyncio
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import psutil
import pytest

from dashboard import slow_readers
from dashboard.queries import (
    isolation,
    processes as processes_module,
    query as query_module,
    query_proxy as proxy_module,
    refusals,
    responses,
)
from dashboard.queries.__main__ import PAUSE_S, QueryPool, _Query, prepare_folder
from dashboard.queries.client import Connection
from dashboard.queries.processes import NoProcessError, cpu_s
from dashboard.queries.protocol import SOCKET_SUFFIX
from dashboard.queries.query_proxy import (
    MAX_DOWNLOADS,
    DownloadsError,
    QueryProxy,
    RefusedError,
    StoppedError,
)
from dashboard.queries.refusals import MAX_KILLS
from runtime import parent_watch
from runtime.organization_locks import BusyError
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path_in
from tests import ROOT
from tests.dashboard.browsing import ENDLESS, OURS, THEIRS, record
from tests.dashboard.queries.hostile import ENDLESS_STEPS, HUNGRY, LONG_TEXTS, SORT, UNION
from tests.dashboard.queries.pool import (
    COUNT,
    PATIENT,
    PATIENT_S,
    WITHOUT_DATASETTE,
    Client,
    ask,
    make_query,
    running_pool,
)
from tests.live.service import is_over
from tests.store.traffic import make_entry
from tests.upstream import wait_until

pytestmark = pytest.mark.live

PAGE = "/traces/usage.json"
SLOW = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500000)"
    " select count(*) as c from n"
)


TIME_LIMIT_MS = 3_000  # of a query of people's
# More processor time than a process needs before a query runs in it.
BEGUN_S = 0.3
# Endless until there is something in the file, and then done at once.
ENDLESS_WHILE_EMPTY = (
    "with recursive n(i) as (select 1 union all select i + 1 from n"
    " where i < (select iif(count(*) = 0, 9e9, 500) from usage)) select count(*) as c from n"
)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Wait for processes as long as they need on a busy machine, also to leave off and to be taken for
    slow ones, and remember kills until a test has seen what comes of them. Tests of such a limit set it
    themselves."""
    for name in ("STOP_S", "MAX_QUICK_S"):
        monkeypatch.setattr(proxy_module, name, PATIENT_S)
    for name in ("WITHIN_S", "REFUSED_S"):
        monkeypatch.setattr(refusals, name, 60 * PATIENT_S)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    traces = tmp_path_factory.mktemp("data") / "traces"
    record(trace_path_in(traces, "ours"), OURS)
    record(trace_path_in(traces, "theirs"), THEIRS)
    (traces.parent / "control.db").write_bytes(b"secret")
    with running_pool(traces, PATIENT) as pool:
        yield pool


@pytest.fixture
def now_s():
    """Added to the clock of the proxy."""
    return [0.0]


@pytest.fixture
def proxy(pool, now_s):
    def clock_s():
        return time.monotonic() + now_s[0]

    pool.wait_ready()
    with closing(QueryProxy(pool.folder, COUNT - 1, clock_s)) as proxy:
        yield proxy


def sql(query, suffix=".json", within_ms=None):
    limit = "" if within_ms is None else f"&_timelimit={within_ms}"
    return f"/traces{suffix}?sql={quote(query)}{limit}"


async def wait_for(is_so):
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def assert_served(proxy, organization_id="theirs", marker=THEIRS):
    client = await ask(proxy, organization_id, PAGE)
    assert client.status == 200
    assert marker.encode() in client.body
    assert client.is_whole


async def serve_during(proxy, *tasks):
    """Serve a page to another organisation again and again until one of the tasks ends; how often.

    With pauses, which leave the processor to what is tried here.
    """
    served = 0
    while not any(task.done() for task in tasks):
        await assert_served(proxy)
        served += 1
        await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    return served


# -- time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENDLESS_STEPS)
async def test_what_nothing_interrupts_ends_with_its_process_and_nobody_waits(proxy, pool, name):
    before = pool.pids()
    attack = asyncio.create_task(ask(proxy, "ours", sql(ENDLESS_STEPS[name]), deadline_s=0.4))
    assert await serve_during(proxy, attack)
    with pytest.raises(StoppedError):
        await attack
    wait_until(lambda: len(pool.pids()) == COUNT, "another in its place")
    assert set(pool.pids()) != set(before)
    await assert_served(proxy, "ours", OURS)


@pytest.mark.parametrize("name", LONG_TEXTS)
async def test_long_texts_are_answered_by_sqlite_itself(proxy, name):
    client = await ask(proxy, "ours", sql(LONG_TEXTS[name]))
    assert client.status == 400
    assert b"error" in client.body


async def test_an_endless_query_is_told_what_to_do_and_kills_nothing(proxy, pool):
    before = pool.pids()
    client = await ask(proxy, "ours", sql(ENDLESS, within_ms=500))
    assert client.status == 400
    assert b"took too long" in client.body
    assert pool.pids() == before


async def test_six_slow_organisations_leave_the_others_alone(proxy, pool):
    for number in range(6):
        record(trace_path_in(pool.traces, f"slow_{number}"), "slow")
    attacks = [
        asyncio.create_task(ask(proxy, f"slow_{number}", sql(ENDLESS, within_ms=1000 + number)))
        for number in range(6)
    ]
    assert await serve_during(proxy, *attacks)
    for task in attacks:
        task.cancel()
    await asyncio.gather(*attacks, return_exceptions=True)
    await assert_served(proxy)


async def test_repeated_kills_are_refused_for_a_while(proxy, now_s):
    for _ in range(MAX_KILLS):
        with pytest.raises(StoppedError):
            await ask(proxy, "ours", sql(ENDLESS), deadline_s=0.1)
    with pytest.raises(RefusedError) as refused:
        await ask(proxy, "ours", PAGE)
    assert 0 < refused.value.wait_s <= refusals.REFUSED_S
    await assert_served(proxy)
    now_s[0] += refusals.REFUSED_S
    await assert_served(proxy, "ours", OURS)


# -- clients that leave ------------------------------------------------------------------------------


async def find_computing(proxy, organization_id, begun_s=0.0):
    """The process that has spent more than ``begun_s`` on something for an organisation."""
    found: list[int] = []

    def is_computing():
        found[:] = [
            pid
            for pid in proxy._processes._lent
            if next(reversed(proxy._processes._served[pid])) == organization_id
        ]
        if not found:
            return False
        now_s = cpu_s(found[0]) or 0.0
        return now_s - used_s.setdefault(found[0], now_s) > begun_s

    used_s: dict[int, float] = {}
    await wait_for(is_computing)
    return found[0]


async def start_computing(proxy, organization_id, target, begun_s=0.0, **more):
    """Return a client and its request, which is being computed, if it goes on until then."""
    client = Client()
    query = make_query(organization_id, target, **more)
    asking = asyncio.create_task(proxy.forward(query, client.receive, client.send))
    finding = asyncio.create_task(find_computing(proxy, organization_id, begun_s))
    await asyncio.wait({asking, finding}, return_when=asyncio.FIRST_COMPLETED)
    finding.cancel()
    return client, asking


async def leave(proxy, organization_id, target, begun_s=0.0, **more):
    """Request something, and leave as soon as it is being computed."""
    client, asking = await start_computing(proxy, organization_id, target, begun_s, **more)
    client.has_left.set()
    await asking
    assert client.status == 0


async def test_whoever_leaves_costs_no_process_and_is_blamed_for_nothing(proxy, pool):
    before = pool.pids()
    for _ in range(2 * MAX_KILLS):
        await leave(proxy, "ours", sql(ENDLESS))
        await assert_served(proxy)
    assert pool.pids() == before
    await assert_served(proxy, "ours", OURS)


async def test_whoever_leaves_before_anything_was_computed_costs_no_process(proxy, pool):
    before = pool.pids()
    for turns in range(40):
        client, asking = start_reading(proxy, "ours", PAGE)
        for _ in range(turns):
            await asyncio.sleep(0)
        client.has_left.set()
        await asking
    assert pool.pids() == before
    await assert_served(proxy, "ours", OURS)


async def test_what_does_not_leave_off_ends_with_its_process_and_counts(proxy, pool):
    target = sql(ENDLESS_STEPS["the check of the text"])
    for _ in range(MAX_KILLS):
        with pytest.raises(StoppedError):
            await leave(proxy, "ours", target, BEGUN_S, deadline_s=0.7)
    with pytest.raises(RefusedError):
        await ask(proxy, "ours", PAGE)
    await assert_served(proxy)


async def test_without_room_among_slow_queries_what_does_not_leave_off_counts_too(
    proxy, monkeypatch
):
    monkeypatch.setattr(proxy_module, "STOP_S", 0.05)
    await proxy._lanes.acquire("theirs", is_slow=True)
    assert not proxy._lanes._lanes[True].free
    target = sql(ENDLESS_STEPS["the check of the text"])
    for _ in range(MAX_KILLS):
        monkeypatch.setattr(proxy_module, "QUICK_S", 60.0)
        client, asking = await start_computing(proxy, "ours", target, BEGUN_S)
        client.has_left.set()
        monkeypatch.setattr(proxy_module, "QUICK_S", 0.01)
        await asking
    assert proxy._refusals.find_wait("ours")


async def test_a_query_that_begins_anew_as_a_slow_one_kills_nothing(proxy, pool, monkeypatch):
    monkeypatch.setattr(proxy_module, "QUICK_S", 0.01)
    before = pool.pids()
    client, slow = start_reading(proxy, "ours", sql(ENDLESS))
    await wait_for(lambda: not proxy._lanes._lanes[True].free)
    asking = asyncio.create_task(ask(proxy, "theirs", sql(SLOW)))
    await wait_for(lambda: proxy._lanes._lanes[True].waiters)
    client.has_left.set()
    await slow
    assert b"500000" in (await asking).body
    assert pool.pids() == before


# -- processes that end ------------------------------------------------------------------------------


async def find_busy(proxy):
    """The process that computes something."""
    await wait_for(lambda: proxy._processes._lent)
    return next(iter(proxy._processes._lent))


async def test_a_request_whose_process_is_killed_is_repeated(proxy, pool):
    with TraceDatabase(trace_path_in(pool.traces, "repeated")) as traces:
        asking = asyncio.create_task(ask(proxy, "repeated", sql(ENDLESS_WHILE_EMPTY)))
        victim = await find_computing(proxy, "repeated")
        os.kill(victim, signal.SIGKILL)
        traces.insert([make_entry()])
        client = await asking
    assert client.status == 200
    assert b"500" in client.body
    assert proxy._refusals.find_wait("repeated") == 0


async def test_requests_share_a_connection_until_its_process_ends(proxy, pool, monkeypatch):
    opened: list[Path] = []
    original = Connection.open

    async def open_and_note(path):
        opened.append(path)
        return await original(path)

    monkeypatch.setattr(Connection, "open", open_and_note)
    for _ in range(3):
        await assert_served(proxy)
    assert len(opened) == 1
    os.kill(int(opened[0].stem), signal.SIGKILL)
    await assert_served(proxy)
    assert opened[1:]


async def test_processes_that_stand_still_are_replaced_and_nobody_is_blamed(
    proxy, pool, monkeypatch
):
    monkeypatch.setattr(proxy_module, "RUNNING_S", 0.3)
    stopped = {*pool.pids()}
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    asking = asyncio.create_task(assert_served(proxy))
    await wait_for(lambda: asking.done() or stopped - {*pool.pids()})
    monkeypatch.setattr(proxy_module, "RUNNING_S", PATIENT_S)
    for pid in stopped & {*pool.pids()}:
        os.kill(pid, signal.SIGCONT)
    await asking
    assert stopped - {*pool.pids()}
    assert proxy._refusals._kills_s == {}


async def test_when_all_processes_stand_still_that_is_told_in_time(proxy, pool, monkeypatch):
    monkeypatch.setattr(proxy_module, "RUNNING_S", 0.01)
    monkeypatch.setattr(proxy_module, "MAX_WAIT_S", 0.5)

    async def stand_still(*_request):
        await asyncio.Event().wait()

    monkeypatch.setattr(Connection, "begin", stand_still)
    async with asyncio.timeout(60):
        with pytest.raises(BusyError):
            await ask(proxy, "ours", PAGE)
    assert proxy._refusals._kills_s == {}


async def test_a_query_that_ends_every_process_it_gets_is_stopped(proxy, monkeypatch):
    asking = asyncio.create_task(ask(proxy, "ours", sql(ENDLESS)))
    killed: set[int] = set()
    used_s: dict[int, float] = {}
    while not asking.done():
        for pid in proxy._processes._lent - killed:
            now_s = cpu_s(pid) or 0.0
            if now_s > used_s.setdefault(pid, now_s) + 0.05:  # it has begun with the query
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.005)
    with pytest.raises(StoppedError):
        await asking
    assert len(killed) == 2, "it was repeated once"


async def test_without_processes_the_proxy_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(processes_module, "WAIT_S", 0.05)
    for folder in (None, tmp_path, tmp_path / "gone"):
        with pytest.raises(NoProcessError):
            await ask(QueryProxy(folder, 2), "ours", PAGE)


def test_the_pool_pauses_once_however_many_end_before_they_are_ready(tmp_path, monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr("dashboard.queries.__main__.time", SimpleNamespace(sleep=pauses.append))
    parent_read, parent_write = os.pipe()
    monkeypatch.setenv(parent_watch.VARIABLE, str(parent_read))
    query_pool = QueryPool(tmp_path, tmp_path / "sockets", 4)
    for _ in range(3):
        read_fd, write_fd = os.pipe()
        os.close(write_fd)
        pid = os.posix_spawnp("true", ["true"], os.environ)
        query_pool._selector.register(read_fd, selectors.EVENT_READ, _Query(pid=pid))

    def fill():
        if pauses:
            os.close(parent_write)  # ends it
        return True

    monkeypatch.setattr(query_pool, "_fill", fill)
    query_pool.run()
    os.close(parent_read)
    assert pauses == [PAUSE_S]


async def test_a_killed_pool_takes_its_processes_with_it(tmp_path):
    with running_pool(tmp_path / "traces", WITHOUT_DATASETTE) as other:
        children = other.children()
        other.process.kill()
        wait_until(lambda: all(map(is_over, children)), "the end of its processes")


async def test_the_pool_ends_with_its_parent_and_leaves_no_folder(tmp_path):
    with running_pool(tmp_path / "traces", WITHOUT_DATASETTE) as other:
        children = [other.process, *other.children()]
        os.close(other.parent_fd)
        other.parent_fd = os.open(os.devnull, os.O_RDONLY)
        wait_until(lambda: all(map(is_over, children)), "the end of the pool")
        assert not other.folder.exists()


async def test_what_is_computed_for_a_web_process_that_has_ended_ends(pool):
    """Its successor would take the process for an idle one."""
    pool.wait_ready()
    victim = pool.pids()[0]
    query = make_query("ours", sql(ENDLESS))
    target = f"{query.scope['path']}?{query.scope['query_string'].decode()}"
    with closing(await Connection.open(pool.folder / f"{victim}{SOCKET_SUFFIX}")) as connection:
        await connection.begin("GET", target.encode(), query.headers)
        used_s = cpu_s(victim) or 0.0
        await wait_for(lambda: (cpu_s(victim) or 0.0) > used_s + 0.05)
    await wait_for(lambda: victim not in pool.pids() and len(pool.pids()) == COUNT)


async def test_a_pool_that_was_told_to_end_leaves_room_for_the_next(tmp_path):
    with running_pool(tmp_path / "traces", WITHOUT_DATASETTE) as other:
        children = other.children()
        other.process.terminate()
        wait_until(
            lambda: is_over(other.process) and all(map(is_over, children)), "the end of the pool"
        )
        assert other.pids() == []
        for is_folder_there in (True, False):
            if not is_folder_there:
                other.process.terminate()
                wait_until(lambda: is_over(other.process), "the end of the second pool")
                other.folder.rmdir()
            other.restart()
            other.wait_ready()
            with closing(QueryProxy(other.folder, COUNT - 1)) as proxy:
                assert (await ask(proxy, "nobody", PAGE)).status == 404


async def test_a_pool_that_is_told_to_end_while_it_forks_ends(tmp_path):
    prelude = f"""{WITHOUT_DATASETTE}
import itertools, os, signal
count = itertools.count()
def end():
    if next(count) == {COUNT}:
        signal.raise_signal(signal.SIGTERM)
os.register_at_fork(after_in_parent=end)
"""
    with running_pool(tmp_path / "traces", prelude) as other:
        os.kill(other.pids()[0], signal.SIGKILL)
        wait_until(lambda: is_over(other.process), "the end of the pool")


async def test_a_refused_fork_harms_nobody_and_is_tried_again(tmp_path):
    prelude = f"""{WITHOUT_DATASETTE}
import errno, itertools, os
fork, count = os.fork, itertools.count()
def refuse_once():
    if next(count) == {COUNT}:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()
os.fork = refuse_once
"""
    with running_pool(tmp_path / "traces", prelude) as other:
        killed, *healthy = other.pids()
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: killed not in other.pids(), "the end of the killed one")
        other.wait_ready()
        assert set(healthy) < set(other.pids())


def test_a_pool_whose_processes_cannot_start_ends_with_the_reason(tmp_path):
    prelude = (
        f"{WITHOUT_DATASETTE}\nfrom dashboard.queries import isolation\n"
        "def refuse(): raise ValueError('no such limit here')\n"
        "isolation.limit_resources = refuse\n"
        "from dashboard.queries.__main__ import main; main()"
    )
    tmp_path.chmod(0o700)
    done = subprocess.run(  # noqa: S603 - our own
        [
            sys.executable,
            "-c",
            prelude,
            f"--traces={tmp_path}",
            f"--sockets={tmp_path}",
            "--count=2",
        ],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "no such limit here" in done.stderr
    assert "No query process could start" in done.stderr


def test_a_pool_refuses_a_folder_that_others_can_enter(tmp_path):
    tmp_path.chmod(0o755)
    with pytest.raises(SystemExit, match="not a private folder"):
        prepare_folder(tmp_path)


# -- memory and disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HUNGRY)
async def test_a_hungry_query_fails_alone(proxy, pool, name):
    attack = asyncio.create_task(ask(proxy, "ours", sql(HUNGRY[name], within_ms=TIME_LIMIT_MS)))
    await serve_during(proxy, attack)
    try:
        client = await attack
    except StoppedError:
        pass
    else:
        assert client.status == 400, bytes(client.body[:500])
    assert all(each.rss < isolation.MAX_MEMORY_BYTES for each in pool.memory())
    await assert_served(proxy)


LARGEST = (  # 15.6 MB that need escaping
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 13)"
    " select i, replace(printf('%0400000d', i), '0', char(233) || char(60)) as body from n"
)


@pytest.mark.parametrize("suffix", ["", ".json", ".csv"])
async def test_the_largest_result_that_may_be_has_the_memory_it_needs(proxy, suffix):
    client = await ask(proxy, "ours", sql(LARGEST, suffix), is_for_program=bool(suffix))
    assert client.status == 200, bytes(client.body[:300])
    assert client.is_whole


async def test_a_process_that_has_grown_ends_after_its_answer(proxy, pool):
    asking = asyncio.create_task(ask(proxy, "ours", sql(LARGEST)))
    grown = await find_busy(proxy)
    assert (await asking).is_whole
    wait_until(lambda: grown not in pool.pids(), "the end of the one that grew")
    pool.wait_ready()
    before = pool.pids()
    await assert_served(proxy)
    assert pool.pids() == before, "others go on"


def temporary_files(pid):
    """Files that a process has open and nobody can find, as SQLite's temporary ones."""
    standard = {"0", "1", "2"}  # the test's own
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(fd)  # noqa: PTH115 - may be no path
            is_file = target.startswith("/") and fd.name not in standard
            if is_file and target.endswith("(deleted)"):
                found.append(target)
    return found


@pytest.mark.parametrize("query", [UNION, SORT], ids=["union", "sort"])
async def test_recursion_and_sorting_leave_the_disk_alone(proxy, query):
    asking = asyncio.create_task(ask(proxy, "ours", sql(query, within_ms=TIME_LIMIT_MS)))
    victim = await find_busy(proxy)
    looks, found = 0, []
    while not asking.done():
        looks += 1
        for pid in proxy._processes._lent | {victim}:
            if Path(f"/proc/{pid}").exists():
                found += temporary_files(pid)
        await asyncio.sleep(0.02)
    client = await asking
    assert client.status == 400
    assert looks > 3
    assert not found


# -- what a process has ------------------------------------------------------------------------------


def test_the_pool_has_no_thread_that_a_fork_could_catch_holding_a_lock(pool):
    assert pool.process.num_threads() == 1


async def test_a_process_knows_no_secret_and_has_only_traces_open(proxy, pool, monkeypatch):
    for _ in range(5):
        await asyncio.gather(assert_served(proxy, "ours", OURS), assert_served(proxy))
    opened = set()
    for child in map(psutil.Process, pool.pids()):
        assert set(child.environ()) <= {
            "PYTHONPATH",
            "MALLOC_ARENA_MAX",
            "LC_CTYPE",
            "TAXIMETER_PARENT_FD",
        }
        for file in child.open_files():
            opened.add(Path(file.path))
            if file.path.endswith(".db"):
                assert file.mode == "r"
        assert child.nice() >= isolation.NICENESS
        assert child.rlimit(resource.RLIMIT_AS)[1] == isolation.MAX_MEMORY_BYTES
    assert {path.name for path in opened} <= {"traces.db", "traces.db-wal", "traces.db-shm"}
    assert {path.parent.parent for path in opened} == {pool.traces}


async def test_many_organisations_in_turn_take_no_more_than_the_few_that_stay_open(proxy, pool):
    """Threads that have ended must not keep their part of the address space."""
    content = trace_path_in(pool.traces, "theirs").read_bytes()
    names = [f"org_{number}" for number in range(60)]
    for name in names:
        path = trace_path_in(pool.traces, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    for name in names * 2:
        assert (await ask(proxy, name, PAGE)).status == 200
    assert all(each.vms < isolation.MAX_MEMORY_BYTES / 2 for each in pool.memory())


async def test_a_log_that_grows_is_still_read(proxy, pool):
    """The index of a write-ahead log is shared memory, which readers write to."""
    path = trace_path_in(pool.traces, "growing")
    with TraceDatabase(path) as traces:
        traces.connection.execute("pragma wal_autocheckpoint = 0")
        for number in range(3):
            traces.insert([make_entry(request_body=os.urandom(4_000_000)) for _ in range(6)])
            client = await ask(proxy, "growing", f"{PAGE}?_size=max&_col=slug")
            assert client.status == 200
            assert len(json.loads(client.body)["rows"]) == 6 * (number + 1)
    assert (await ask(proxy, "growing", PAGE)).status == 200


# -- long responses ----------------------------------------------------------------------------------

STREAM = "/traces/usage_log.csv?_stream=1"
LONG_ROWS = 250


@pytest.fixture(scope="module")
def long_traces(pool):
    """Traces whose export is some megabytes in many pages."""
    body = b'{"text": "' + b"x" * 20_000 + b'"}'
    with TraceDatabase(trace_path_in(pool.traces, "long")) as traces:
        traces.insert([make_entry(request_body=body) for _ in range(LONG_ROWS)])
    return "long"


async def test_an_export_is_whole(proxy, long_traces):
    client = await ask(proxy, long_traces, STREAM)
    assert client.is_whole
    assert client.body.count(b"x" * 20_000) == LONG_ROWS


async def test_nothing_is_sent_to_a_caller_who_was_removed_while_waiting(proxy, monkeypatch):
    monkeypatch.setattr(query_module, "RECHECK_S", 0.0)

    async def check():
        raise PermissionError("removed")

    client = Client()
    with pytest.raises(PermissionError):
        await proxy.forward(make_query("ours", PAGE, check), client.receive, client.send)
    assert client.status == 0


async def test_an_export_ends_when_its_reader_leaves(proxy, long_traces, pool):
    client = Client()
    client.reads.set()
    client.on_part = lambda _part: client.has_left.set()
    before = pool.pids()
    await proxy.forward(make_query(long_traces, STREAM), client.receive, client.send)
    assert not client.is_whole
    assert len(client.body) < 1_000_000
    assert pool.pids() == before, "its process has left off"
    await assert_served(proxy, long_traces, "query_ms")


async def test_an_organisation_has_so_many_downloads_at_once_and_no_more(
    proxy, long_traces, monkeypatch
):
    monkeypatch.setattr(proxy_module, "READING_AFTER_S", 0.1)
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 120.0)
    started = [start_reading(proxy, long_traces, STREAM) for _ in range(MAX_DOWNLOADS)]
    await wait_for(lambda: all(client.status for client, _ in started))
    with pytest.raises(DownloadsError):
        await ask(proxy, long_traces, STREAM)
    await assert_served(proxy, long_traces, "query_ms")
    assert (await ask(proxy, "theirs", "/traces/usage.csv?_stream=1")).is_whole
    for client, asking in started:
        client.has_left.set()
        await asking
    assert (await ask(proxy, long_traces, STREAM)).is_whole


async def test_who_does_not_read_is_cut_and_meanwhile_holds_nobody_up(
    proxy, long_traces, pool, monkeypatch, caplog
):
    monkeypatch.setattr(proxy_module, "READING_AFTER_S", 0.2)
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 2.0)
    client = Client()
    asking = asyncio.create_task(
        proxy.forward(make_query(long_traces, STREAM), client.receive, client.send)
    )
    while not asking.done():
        await assert_served(proxy)
        await assert_served(proxy, long_traces, "query_ms")
        await asyncio.wait([asking], timeout=0.1)
    assert not client.is_whole
    assert "did not read" in caplog.text
    wait_until(lambda: len(pool.pids()) == COUNT, "all of them")


LONG_VALUE = sql("select printf('%02000000d', 1) as v")


def start_reading(proxy, organization_id, target=LONG_VALUE):
    """Returns a client that does not read yet, and its request."""
    client = Client()
    query = make_query(organization_id, target)
    return client, asyncio.create_task(proxy.forward(query, client.receive, client.send))


async def test_pages_that_nobody_reads_take_no_process_from_the_others(proxy, pool, monkeypatch):
    """They are one message each: the process has done its part at once, and all waits in buffers."""
    monkeypatch.setattr(proxy_module, "READING_AFTER_S", 0.2)
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 120.0)
    names = ["ours", "unread_1", "unread_2"]
    assert len(names) == COUNT
    for name in names[1:]:
        record(trace_path_in(pool.traces, name), OURS)
    started = [start_reading(proxy, name) for name in names]
    await wait_for(lambda: all(client.status for client, _ in started))
    for _ in range(5):
        await assert_served(proxy)
    for client, asking in started:
        client.reads.set()
        await asking
        assert client.is_whole
        assert len(client.body) > 2_000_000


async def test_who_reads_a_little_now_and_then_is_cut(proxy, monkeypatch, caplog):
    monkeypatch.setattr(slow_readers, "MIN_BYTES_PER_S", 10 << 20)
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 1.0)
    client, asking = start_reading(proxy, "ours")
    while not asking.done():  # always sooner than a client that takes nothing is cut
        client.reads.set()
        await asyncio.sleep(0)
        client.reads.clear()
        await asyncio.sleep(0.3)
    await asking
    assert not client.is_whole
    assert client.body
    assert "too slowly" in caplog.text


async def test_of_too_many_long_responses_the_slowest_is_cut(proxy, pool, long_traces, monkeypatch):
    monkeypatch.setattr(proxy_module, "READING_AFTER_S", 0.1)
    monkeypatch.setattr(responses, "MAX_READING", 1)
    content = trace_path_in(pool.traces, long_traces).read_bytes()
    path = trace_path_in(pool.traces, "long_2")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    unread, read = Client(), Client()
    read.reads.set()
    first = asyncio.create_task(
        proxy.forward(make_query(long_traces, STREAM), unread.receive, unread.send)
    )
    second = asyncio.create_task(
        proxy.forward(make_query("long_2", STREAM), read.receive, read.send)
    )
    await asyncio.wait_for(first, 60)
    await second
    assert not unread.is_whole
    assert read.is_whole


async def test_an_organisation_that_reads_much_at_once_cuts_itself_and_nobody_slower(
    proxy, monkeypatch
):
    monkeypatch.setattr(proxy_module, "READING_AFTER_S", 0.1)
    monkeypatch.setattr(responses, "MAX_READING", 2)
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 120.0)
    slow, asking_slow = start_reading(proxy, "theirs")
    await wait_for(lambda: len(proxy._readers) == 1)
    asking = [start_reading(proxy, "ours")[1] for _ in range(2)]
    await wait_for(lambda: any(task.done() for task in asking))
    assert not asking_slow.done()
    slow.reads.set()
    await asking_slow
    assert slow.is_whole
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


async def test_a_page_that_nobody_reads_keeps_none_of_the_same_organisation_waiting(
    proxy, monkeypatch
):
    monkeypatch.setattr(proxy_module, "READING_AFTER_S", 0.2)
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 120.0)
    client, asking = start_reading(proxy, "ours")
    await wait_for(lambda: client.status)
    async with asyncio.timeout(60):
        await assert_served(proxy, "ours", OURS)
    assert not asking.done()
    client.has_left.set()
    await asking


async def test_a_turn_that_does_not_come_in_time_is_told(proxy, monkeypatch):
    monkeypatch.setattr(proxy_module, "READING_AFTER_S", 60.0)
    monkeypatch.setattr(slow_readers, "NO_PROGRESS_S", 120.0)
    client, asking = start_reading(proxy, "ours")
    await wait_for(lambda: client.status)
    monkeypatch.setattr(proxy_module, "MAX_WAIT_S", 0.1)
    async with asyncio.timeout(60):
        with pytest.raises(BusyError):
            await ask(proxy, "ours", PAGE)
    client.has_left.set()
    await asking
    monkeypatch.undo()
    await assert_served(proxy, "ours", OURS)


async def test_a_response_that_is_too_long_is_cut(proxy, long_traces, monkeypatch, caplog):
    monkeypatch.setattr(query_module, "MAX_STREAM_BYTES", 1_000_000)
    client = await ask(proxy, long_traces, STREAM)
    assert not client.is_whole
    assert len(client.body) <= 1_000_000
    assert "more than" in caplog.text
