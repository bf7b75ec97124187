"""The alarm, the confirmation and the end of each request in a query process."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from dashboard.queries import connections, process
from dashboard.queries.client import Connection, NotThereError, ProcessGoneError
from dashboard.queries.process import READING, Supervised
from dashboard.queries.protocol import RUNNING, make_frame
from tests import ROOT
from tests.dashboard.queries.pool import make_query

SCOPE = {"headers": list(make_query("ours", "/traces").headers)}


class App:
    """Answers, and looks at the alarm meanwhile."""

    def __init__(self, error=None):
        self.should_end = asyncio.Event()
        self.alarms: list[float] = []
        self._error = error

    async def __call__(self, _scope, _receive, send):
        self._look()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self._look()
        if self._error:
            raise self._error
        await send({"type": "http.response.body", "body": b""})

    def _look(self):
        self.alarms.append(signal.getitimer(signal.ITIMER_REAL)[0])


@pytest.fixture
def pipe():
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    yield read_fd, write_fd
    os.close(read_fd)
    os.close(write_fd)


async def receive():
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(_message):
    """Take everything."""


@pytest.mark.parametrize("error", [None, ValueError("broken off")])
async def test_an_alarm_of_the_kernel_runs_for_as_long_as_the_request(pipe, monkeypatch, error):
    monkeypatch.setattr(process, "MAX_GROWN_BYTES", 1 << 40)  # so has the process of the tests
    app = App(error)
    with contextlib.suppress(ValueError):
        await Supervised(app, app.should_end, threading.Event(), pipe[1])(SCOPE, receive, send)
    assert all(0 < left_s <= process.ALARM_BETWEEN_MESSAGES_S for left_s in app.alarms)
    assert app.alarms[0] <= process.ALARM_S
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert not app.should_end.is_set()


async def test_a_process_that_is_read_slowly_and_has_grown_leaves_the_pool_once(pipe, monkeypatch):
    monkeypatch.setattr(process, "MAX_GROWN_BYTES", 0)
    app = App()
    supervised = Supervised(app, app.should_end, threading.Event(), pipe[1])
    supervised.leave_pool()
    await supervised(SCOPE, receive, send)
    assert app.should_end.is_set()
    assert os.read(pipe[0], 16) == READING


@contextlib.asynccontextmanager
async def connected(folder, app, abandoned, on_broken):
    """A connection to the application, which has a request."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(folder / "one.sock"))
        server = await connections.listen(app, listener, abandoned, on_broken)
        with contextlib.closing(await Connection.open(folder / "one.sock")) as connection:
            await connection.begin("GET", b"/", [(b"host", b"localhost")])
            yield connection
        server.close()
        await server.wait_closed()


async def test_what_is_told_that_nobody_waits_leaves_off_and_sends_nothing(tmp_path):
    abandoned = threading.Event()
    sent: list[object] = []

    async def app(_scope, _receive, send):
        while not abandoned.is_set():
            await asyncio.sleep(0.001)
        for message in (
            {"type": "http.response.start", "status": 200, "headers": []},
            {"type": "http.response.body", "body": b"late"},
        ):
            await send(message)
            sent.append(message["type"])

    broken: list[bool] = []
    async with connected(tmp_path, app, abandoned, lambda: broken.append(True)) as connection:
        assert not abandoned.is_set()
        connection.abandon()
        with pytest.raises(ProcessGoneError):
            await asyncio.wait_for(connection.read_head(), 60)
        assert connection.is_over
    assert len(sent) == 2, "it was let run to its end"
    assert broken == []


async def respond(scope, _receive, send):
    """Send the path. Something is left to be done when the response is whole."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["raw_path"]})
    await asyncio.sleep(0.01)


async def test_a_connection_has_one_request_after_the_other(tmp_path):
    abandoned = threading.Event()
    async with connected(tmp_path, respond, abandoned, lambda: None) as connection:
        for number in range(3):
            if number:
                await connection.begin("GET", f"/{number}".encode(), [])
            assert not connection.may_go_on
            await connection.read_head()
            parts = [part async for part in read_all(connection)]
            assert parts == [f"/{number}".encode() if number else b"/"]
            assert connection.may_go_on
    assert not abandoned.is_set(), "what comes before the last response is done with is no STOP"


async def test_a_response_that_nobody_reads_to_its_end_is_dropped_with_its_connection(tmp_path):
    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(8 << 20)})

    async with connected(tmp_path, app, threading.Event(), lambda: None) as connection:
        await connection.read_head()
        assert await connection.stop(60)
        assert not connection.may_go_on


async def test_a_process_that_ends_closes_connections_without_a_request(tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "one.sock"))
        server = await connections.listen(respond, listener, threading.Event(), lambda: None)
        with contextlib.closing(await Connection.open(tmp_path / "one.sock")) as connection:
            await connection.begin("GET", b"/", [])
            await connection.read_head()
            assert [part async for part in read_all(connection)] == [b"/"]
            server.close()
            await asyncio.wait_for(server.wait_closed(), 60)
            with pytest.raises(NotThereError):
                await connection.begin("GET", b"/", [])


async def test_a_process_whose_connection_ends_while_it_computes_is_told(tmp_path):
    broken, never = asyncio.Event(), asyncio.Event()

    async def app(_scope, _receive, _send):
        await never.wait()

    async with connected(tmp_path, app, threading.Event(), broken.set) as connection:
        connection.close()
        await asyncio.wait_for(broken.wait(), 60)
        never.set()


async def test_a_process_that_ends_before_it_confirms_a_request_never_had_it(tmp_path):
    async def end(_reader, writer):
        writer.transport.abort()

    path = tmp_path / "dying.sock"
    async with await asyncio.start_unix_server(end, path):
        connection = await Connection.open(path)
        with contextlib.closing(connection), pytest.raises(NotThereError):
            await connection.begin("GET", b"/", [])


@pytest.mark.parametrize("error", [ValueError("broken"), None])
async def test_an_application_that_fails_before_its_response_is_told_as_an_error(tmp_path, error):
    async def app(_scope, _receive, send):
        if error is not None:
            raise error
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-one", b"\xfc")]})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b"last"})

    async with connected(tmp_path, app, threading.Event(), lambda: None) as connection:
        head = await connection.read_head()
        parts = [part async for part in read_all(connection)]
    if error is None:
        assert (head.status, head.headers) == (200, [(b"x-one", b"\xfc")])
        assert b"".join(parts) == b"firstlast"
    else:
        assert head.status == 500


async def read_all(connection):
    while (part := await connection.read()) is not None:
        yield part


async def test_a_response_that_fails_before_its_body_is_told_as_an_error_too(tmp_path):
    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("broken off")

    async with connected(tmp_path, app, threading.Event(), lambda: None) as connection:
        assert (await connection.read_head()).status == 500
        assert b"broken" not in b"".join([part async for part in read_all(connection)])


async def test_a_response_that_fails_in_its_middle_is_not_taken_for_a_whole_one(tmp_path):
    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise ValueError("broken off")

    async with connected(tmp_path, app, threading.Event(), lambda: None) as connection:
        await connection.read_head()
        assert await connection.read() == b"first"
        with pytest.raises(ProcessGoneError):
            await connection.read()


async def test_a_head_that_is_none_is_not_believed(tmp_path):
    async def respond(_reader, writer):
        writer.write(RUNNING + make_frame(payloads.pop()))
        writer.close()

    payloads = [b"", b"{}", b"[1]", b'["x", []]', b'[200, ["x"]]', b"[200, [[1, 2]]]", b"\xff"]
    path = tmp_path / "strange.sock"
    async with await asyncio.start_unix_server(respond, path):
        while payloads:
            with contextlib.closing(await Connection.open(path)) as connection:
                await connection.begin("GET", b"/", [])
                with pytest.raises(ProcessGoneError):
                    await connection.read_head()


@pytest.mark.slow
def test_the_web_process_does_not_load_datasette():
    code = "import sys, manage.server; print('datasette' in sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "False"
