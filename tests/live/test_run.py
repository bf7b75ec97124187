"""``taximeter run``: a client, the service that it uses, and what the run cost."""

import json
import os
import pty
import select
import signal
import sys
import termios
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from manage.supervision.announcement import find_running, is_running
from runtime.locks import find_holder
from tests.live.command import (
    TAXIMETER,
    base_url,
    call,
    call_here,
    environment,
    running,
)
from tests.live.service import Endpoint, Service
from tests.upstream import PATIENCE_S, Upstream, answer, message_json, refusing_address, wait_until

CALLING = """
import sys, urllib.request, os
for _ in range(int(sys.argv[1])):
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", b"{}")
    print(urllib.request.urlopen(request).status, flush=True)
"""
TALKING = """
import json, os, sys, urllib.request
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", b"{}")
print(json.load(urllib.request.urlopen(request))["content"][0]["text"])
print(os.environ["CLAUDE_CODE_GATEWAY_HINT_HEADERS"])
sys.exit(3)
"""
WAITING = f"""{CALLING}
import time
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.05)
"""
NO_PROXY = {"no_proxy": "127.0.0.1"}
ATTRIBUTES = ("--user", "ann", "--project", "acme/shop", "--tag", "env:dev", "--tag", "B")


def attributed(live: Endpoint) -> list[tuple[Any, ...]]:
    names = ("attributed_user", "project", "tags")
    return [tuple(row[name] for name in names) for row in live.rows()]


def calling(number: int) -> tuple[str, ...]:
    """A client that makes so many calls."""
    return (sys.executable, "-c", CALLING, str(number))


def summary_of(errors: str) -> dict[str, Any]:
    """The JSON document at the end of standard error."""
    document: dict[str, Any] = json.loads(errors.splitlines()[-1])
    return document


@pytest.fixture(autouse=True)
def patient(patient_runs: None) -> None:
    """All runs here are."""


@pytest.fixture
def alone(tmp_path: Path, upstream: Upstream) -> dict[str, str]:
    """The environment of somebody who has no service."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.fspath(Path(__file__).resolve().parents[2]),
        "TAXIMETER_LISTEN": "127.0.0.1:0",
        "TAXIMETER_DATA_DIR": str(tmp_path / "data"),
        "TAXIMETER_UPSTREAM_URL": upstream.url,
        **NO_PROXY,
    }


def test_without_a_service_one_runs_as_long_as_the_client(
    alone: dict[str, str], upstream: Upstream, tmp_path: Path
) -> None:
    upstream.otherwise = answer(200, message_json())
    done = call(("run", sys.executable, "-c", TALKING), alone)
    assert (done.returncode, done.stdout) == (3, "Hello there\n1\n"), done.stderr
    assert "taximeter: 1 call, $0.0001" in done.stderr
    assert "claude-sonnet-4-5-20250929" in done.stderr
    assert [request.target for request in upstream.requests] == ["/v1/messages"]
    assert not is_running(tmp_path / "data")
    assert find_holder(tmp_path / "data" / "recorder.lock") is None
    assert "Stopped." in (tmp_path / "data" / "run.log").read_text()


def test_a_client_with_a_proxy_reaches_the_service_without_it(
    live: Endpoint, shared_service: Service
) -> None:
    live.upstream.otherwise = answer(200, message_json())
    environ = environment(shared_service)
    with refusing_address() as nobody:
        environ |= {"http_proxy": nobody, "HTTPS_PROXY": nobody}
        done = call_here(("run", "--endpoint", live.slug, "--", *calling(1)), environ)
    assert done.returncode == 0, done.stderr
    assert len(live.upstream.requests) == 1


def test_a_started_service_ends_after_the_last_run_that_uses_it(
    alone: dict[str, str], upstream: Upstream, tmp_path: Path
) -> None:
    upstream.otherwise = answer(200, message_json())
    data_dir = tmp_path / "data"
    waiting = ("run", "--json", sys.executable, "-c", WAITING, "1")
    with running(waiting, alone) as (first, output, errors):
        wait_until(lambda: "200" in output.text, "a call", patience_s=PATIENCE_S)
        service = find_running(data_dir)
        with running(waiting, alone) as (second, other_output, _):
            wait_until(lambda: "200" in other_output.text, "a call", patience_s=PATIENCE_S)
            first.send_signal(signal.SIGTERM)
            assert first.wait(PATIENCE_S) == 128 + signal.SIGTERM
            wait_until(lambda: "run_id" in errors.text, "its summary")
            assert summary_of(errors.text)["totals"]["calls"] == 1
            assert find_running(data_dir) == service, "the second one uses it"
            second.kill()
            wait_until(lambda: not is_running(data_dir), "its end", patience_s=PATIENCE_S)


def test_a_service_that_cannot_start_shows_its_last_lines(
    alone: dict[str, str], upstream: Upstream
) -> None:
    alone["TAXIMETER_LISTEN"] = upstream.url.removeprefix("http://")
    done = call_here(("run", *calling(1)), alone)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the service could not start. The last lines of" in done.stderr
    assert f"cannot listen on {alone['TAXIMETER_LISTEN']}" in done.stderr


def test_two_runs_at_the_same_time_have_their_own_totals(
    live: Endpoint, shared_service: Service
) -> None:
    environ = environment(shared_service, **NO_PROXY)
    live.upstream.otherwise = answer(200, message_json())
    pid = shared_service.pid
    assert live.send().status == 200, "a call of no run"
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(
                call, ("run", "--json", "--endpoint", live.slug, "--", *calling(number)), environ
            )
            for number in (1, 3)
        ]
    for number, done in zip((1, 3), (run.result() for run in runs), strict=True):
        assert done.returncode == 0, done.stderr
        document = summary_of(done.stderr)
        assert (document["totals"]["calls"], document["pending"]) == (number, 0)
        assert [model["model"] for model in document["models"]] == ["claude-sonnet-4-5-20250929"]
    ids = [row["run_id"] for row in live.rows()]
    assert sorted(map(ids.count, set(ids))) == [1, 1, 3]
    assert shared_service.pid == pid


def test_a_run_elsewhere_is_counted_over_the_api_and_has_its_attributes(
    live: Endpoint, shared_service: Service, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    environ = environment(shared_service, **NO_PROXY)
    live.upstream.otherwise = answer(200, message_json())
    key = call_here(("keys", "create", "runs"), environ).stdout.strip()
    environ |= {"TAXIMETER_API_KEY": key, "TAXIMETER_DATA_DIR": str(tmp_path / "none")}
    arguments = ("--endpoint", live.slug, "--base-url", base_url(shared_service), *ATTRIBUTES)
    done = call_here(("run", *arguments, *calling(2)), environ)
    assert (done.returncode, done.stdout, capfd.readouterr().out) == (0, "", "200\n200\n"), (
        done.stderr
    )
    assert "taximeter: 2 calls, $" in done.stderr
    assert "Recorded for user ann, project acme/shop, tagged b, env:dev" in done.stderr
    assert attributed(live) == [("ann", "acme/shop", '["b","env:dev"]')] * 2
    (run_id,) = {row["run_id"] for row in live.rows()}
    assert f"{base_url(shared_service)}/traces/usage?run_id={run_id}" in done.stderr
    assert not (tmp_path / "none").exists()


HEADED = """
import os, urllib.request
for headers in ({}, {"x-taximeter-user": "eve", "x-taximeter-tags": "own"}):
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    urllib.request.urlopen(urllib.request.Request(url, b"{}", headers))
"""


def test_the_calls_of_a_run_have_its_attributes_but_where_they_name_their_own(
    live: Endpoint, shared_service: Service
) -> None:
    environ = environment(shared_service, **NO_PROXY)
    live.upstream.otherwise = answer(200, message_json())
    command = ("--endpoint", live.slug, *ATTRIBUTES, "--", sys.executable, "-c", HEADED)
    done = call_here(("run", "--json", *command), environ)
    assert done.returncode == 0, done.stderr
    found = summary_of(done.stderr)
    assert (found["user"], found["project"], found["tags"]) == (
        "ann",
        "acme/shop",
        ["b", "env:dev"],
    )
    assert attributed(live) == [
        ("ann", "acme/shop", '["b","env:dev"]'),
        ("eve", "acme/shop", '["own"]'),
    ]


def test_nothing_of_a_run_is_kept_with_metadata_only_and_headers_are(
    make_endpoint: Callable[..., Endpoint], shared_service: Service
) -> None:
    live = make_endpoint(metadata_only=True)
    live.upstream.otherwise = answer(200, message_json())
    environ = environment(shared_service, **NO_PROXY)
    command = ("--endpoint", live.slug, *ATTRIBUTES, "--", sys.executable, "-c", HEADED)
    done = call_here(("run", *command), environ)
    assert "are not stored: the endpoint" in done.stderr
    assert "Recorded for" not in done.stderr
    assert attributed(live) == [(None, None, None), ("eve", None, '["own"]')]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "name the client"),
        (("--tag", "a,b", "true"), 2, "--tag: a tag has 1 to 40 letters"),
        (("no-such-client-at-all",), 127, "no-such-client-at-all: command not found"),
        ((str(Path(__file__)),), 126, "cannot be executed"),
        (("--endpoint", "nowhere", "true"), 1, "no proxy endpoint 'nowhere'"),
        (("--data-dir", "/dev/null/x", "true"), 1, "/dev/null"),
        (("sh", "-c", "kill -KILL $$"), 128 + 9, "no calls were made in this run"),
    ],
)
def test_what_ends_a_run_is_told_by_its_exit_status(
    shared_service: Service, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = call_here(("run", *arguments), environment(shared_service))
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


def test_signals_reach_the_client_and_its_answer_counts(shared_service: Service) -> None:
    client = (
        "trap 'echo INT; exit 5' INT; trap 'echo HUP' HUP; echo ready; while :; do sleep 0.1; done"
    )
    environ = environment(shared_service)
    with running(("run", "sh", "-c", client), environ) as (process, output, errors):
        wait_until(lambda: "ready" in output.text, "the client", patience_s=PATIENCE_S)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "HUP" in output.text, "its first answer")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 5
        wait_until(lambda: "taximeter:" in errors.text, "the summary")
    assert output.text.split() == ["ready", "HUP", "INT"]


def test_the_client_owns_the_terminal(shared_service: Service) -> None:
    """Ctrl-C reaches it once, and the run outlives it."""
    client = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'interrupted\\n'))\n"
        "print('tty' if sys.stdin.isatty() else 'no tty', flush=True)\n"
        "for _ in range(2): print('said', input(), flush=True)\n"
    )
    environ = environment(shared_service)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(TAXIMETER, [str(TAXIMETER), "run", sys.executable, "-c", client], environ)  # noqa: S606
    # Else a key that sends a signal also throws away what was typed and printed around it.
    attributes = termios.tcgetattr(terminal)
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    seen = b""

    def read_until(part: bytes) -> None:
        nonlocal seen
        while part not in seen:
            assert select.select([terminal], [], [], PATIENCE_S)[0], seen
            try:
                seen += os.read(terminal, 1024)
            except OSError as error:  # everybody has closed it
                raise AssertionError(seen) from error

    try:
        read_until(b"tty")
        os.kill(pid, signal.SIGINT)  # as what is typed comes to the run; it must pass nothing on
        os.write(terminal, b"one\n")
        read_until(b"said one")
        os.write(terminal, b"\x03")
        read_until(b"interrupted")
        os.write(terminal, b"two\n")
        read_until(b"said two")
        read_until(b"no calls were made in this run")
        _, status = os.waitpid(pid, 0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert seen.count(b"interrupted") == 1
