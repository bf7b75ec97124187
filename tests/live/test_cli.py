"""The command as people call it, on the data of a running service and through its API."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.command import (
    Done,
    base_url,
    call,
    call_here,
    environment,
    running,
)
from tests.live.conftest import EndpointFactory
from tests.live.service import Endpoint, Output, Service
from tests.upstream import (
    PATIENCE_S,
    Gate,
    answer,
    message_events,
    message_json,
    sse,
    wait_until,
)

type Run = Callable[..., Done]


@pytest.fixture
def here(shared_service: Service) -> Run:
    """Runs a command on the machine of the service."""

    def run(*arguments: str) -> Done:
        return call_here(arguments, environment(shared_service))

    return run


@pytest.fixture
def key(here: Run) -> str:
    made = here("keys", "create", "test")
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.fixture
def elsewhere(shared_service: Service, key: str, tmp_path: Path) -> Run:
    """Runs a command on another machine, that has a key."""
    environ = environment(
        shared_service, TAXIMETER_API_KEY=key, TAXIMETER_DATA_DIR=str(tmp_path / "none")
    )

    def run(*arguments: str) -> Done:
        return call_here((*arguments, "--base-url", base_url(shared_service)), environ)

    return run


def document(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def wait_for_lines(output: Output, count: int) -> list[str]:
    wait_until(
        lambda: output.text.count("\n") >= count,
        f"{count} lines",
        patience_s=PATIENCE_S,
    )
    return output.text.splitlines()


def test_here_and_elsewhere_print_the_same_documents(
    here: Run, elsewhere: Run, live: Endpoint
) -> None:
    assert live.send().status == 200
    live.rows()
    for arguments in (
        ("endpoints", "list"),
        ("keys", "list"),
        ("usage",),
        ("usage", "--by", "model"),
        ("usage", "--by", "endpoint", "--from", "2026-01-01"),
    ):
        remote = document(elsewhere(*arguments, "--json"))
        assert remote == document(here(*arguments, "--json"))
        assert elsewhere(*arguments).stdout == here(*arguments).stdout
    assert document(here("usage", "--json"))["totals"]["calls"] >= 1


def test_a_process_of_its_own_prints_the_same(here: Run, shared_service: Service) -> None:
    command = ("keys", "list", "--json")
    assert document(call(command, environment(shared_service))) == document(here(*command))
    remote = (*command, "--base-url", base_url(shared_service))
    refused = call(remote, environment(shared_service, TAXIMETER_API_KEY="sk_" + "x" * 43))
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)


def test_tail_follows_what_is_recorded_in_the_order_it_ends(
    make_endpoint: EndpointFactory, shared_service: Service
) -> None:
    endpoint = make_endpoint("live")
    endpoint.upstream.otherwise = answer(200, message_json(model="claude-short-1"))
    endpoint.send()
    endpoint.rows()
    arguments = ("tail", "-n", "1", "--json", "--slug", endpoint.slug)
    with (
        running(arguments, environment(shared_service)) as (process, output, errors),
        endpoint.connect() as long,
    ):
        wait_for_lines(output, 1)
        gate = Gate()
        events = message_events(model="claude-long-1")
        endpoint.upstream.enqueue(sse([*events[:2], gate, *events[2:]]))
        long.send(endpoint.message(b'{"stream":true}'))
        gate.wait_reached()
        endpoint.send()
        wait_for_lines(output, 2)
        gate.open()
        rows = [json.loads(line) for line in wait_for_lines(output, 3)]
        assert [row["model"] for row in rows] == [
            "claude-short-1", "claude-short-1", "claude-long-1",
        ]  # fmt: skip
        assert rows[2]["created_at"] < rows[1]["created_at"]
        assert rows[2]["id"] > rows[1]["id"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0, errors.text
    (plain,) = call_here(
        ("tail", "-n", "1", "--no-follow", "--slug", endpoint.slug), environment(shared_service)
    ).stdout.splitlines()
    shared_service.wait_until(lambda: plain in shared_service.output, "the line of the recorder")


def test_a_running_service_is_backed_up_with_a_rule_for_each_of_its_files(
    shared_service: Service, live: Endpoint, here: Run, tmp_path: Path
) -> None:
    assert live.send().status == 200
    (row,) = live.rows()
    report = document(here("backup", str(tmp_path / "backup"), "--json"))
    assert (report["ok"], report["problems"], report["unknown"]) == (True, {}, [])
    elsewhere = {"TAXIMETER_DATA_DIR": str(tmp_path / "elsewhere")}
    restored = call_here(
        ("restore", str(tmp_path / "backup")), environment(shared_service, **elsewhere)
    )
    assert restored.returncode == 0, restored.stderr
    exported = call_here(("export", "--slug", live.slug), environment(shared_service, **elsewhere))
    assert [json.loads(line)["entry_id"] for line in exported.stdout.splitlines()] == [
        row["entry_id"]
    ]
