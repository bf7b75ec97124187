"""``taximeter demo``: every kind of call is there after its clients are done, and nothing after its end."""

import json
import os
import re
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from extensions.credentials_in_calls.findings import list_secrets
from extensions.demo.library import read_table
from runtime.clock import format_ms, now
from store.traces.paths import find_trace_files
from tests import ROOT
from tests.live.command import call_here, running
from tests.upstream import PATIENCE_S, wait_until

pytestmark = pytest.mark.live

CALLS = 31  # that are sent through the proxy
LINE = re.compile(
    r"^20\S+ \S+Z {2}", re.MULTILINE
)  # of a call; one of the log has a single space there
OF_A_BUSY_MACHINE = "stands still and is replaced"
LINK = re.compile(r"this link signs you in once, within 15 minutes: (http://\S+)\n")


def environ_of(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        # Of a service that others may use; the demo must not.
        "TAXIMETER_UPSTREAM_URL": "http://127.0.0.1:9",
        "TAXIMETER_DATA_DIR": str(home / "real"),
    }


def test_the_demo_has_every_kind_of_call_and_leaves_nothing(tmp_path: Path) -> None:
    environ, began_at = environ_of(tmp_path), format_ms(now())
    arguments = ("demo", "--json", "--pace", "0", "--listen", "127.0.0.1:0")
    keyboard, terminal = os.openpty()
    with (
        open(keyboard, "wb", buffering=0) as keys,  # noqa: PTH123 - a descriptor
        open(terminal) as stdin,  # noqa: PTH123
        running(arguments, environ, stdin.fileno()) as (process, output, errors),
    ):
        wait_until(lambda: "\n" in output.text, "the addresses", patience_s=PATIENCE_S)
        addresses = json.loads(output.text)
        wait_until(lambda: "calls are complete" in errors.text, "the calls", patience_s=PATIENCE_S)
        data_dir = Path(addresses["data_dir"])
        here = environ | {"TAXIMETER_DATA_DIR": str(data_dir)}
        every: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []

        def read_rows() -> bool:
            done = call_here(("export", "--json"), here)
            every[:] = json.loads(done.stdout)["items"]
            rows[:] = [row for row in every if row["created_at"] >= began_at]
            return len(rows) == CALLS

        wait_until(read_rows, "every call", patience_s=PATIENCE_S)
        assert Counter(row["outcome"] for row in rows) == {
            "complete": len(rows) - 5,
            "upstream_error": 3,
            "upstream_interrupted": 1,
            "client_disconnected": 1,
        }
        assert {row["status_code"] for row in rows} == {200, 400, 429, 529}
        (traces,) = find_trace_files(data_dir)

        def read_kinds() -> list[str]:
            with closing(sqlite3.connect(f"file:{traces}?mode=ro", uri=True, timeout=30)) as db:
                return [found.kind for found in list_secrets(traces, db)]

        wait_until(read_kinds, "the credential that was pasted", patience_s=PATIENCE_S)
        assert read_kinds() == ["AWS access key"]
        assert {row["slug"] for row in rows} == {
            each["slug"] for each in read_table("organization")["endpoints"]
        }
        assert len(every) > 10 * CALLS, "the history of two weeks"
        # What is of the same program has the same fingerprint, now and then.
        assert {row["credential_hmac"] for row in rows} == {row["credential_hmac"] for row in every}
        assert len({row["session_id"] for row in rows} - {None}) == 2
        assert len({row["agent_id"] for row in rows} - {None}) == 2
        assert [row["model"] for row in rows if row["usage_source"] != "none" and row["cost_cents"] is None] == ["claude-atlas-preview"]  # fmt: skip
        declined = [row for row in rows if row["stop_reason"] == "refusal"]
        assert [(row["input_tokens"] > 0, row["cost_cents"]) for row in declined] == [(True, 0)]
        assert Counter(row["billing"] for row in rows) == {"api_key": CALLS - 5, "subscription": 5}
        assert Counter(row["usage_source"] for row in rows)["estimated"] == 2
        main = [r for r in rows if r["model"] == "claude-opus-5-5" and r["agent_id"] is None]
        reads = [row["cache_read_input_tokens"] for row in main]
        assert reads.count(0) == 2, "the first call, and the one after the tools changed"
        assert reads[-1] > 3_000
        sign_in(addresses["base_url"], addresses["sign_in_url"])
        assert "Open the demo" in httpx.get(addresses["sign_in_url"], timeout=PATIENCE_S).text, (
            "it works once"
        )
        keys.write(b"\n")
        wait_until(lambda: LINK.search(errors.text), "another link", patience_s=PATIENCE_S)
        sign_in(addresses["base_url"], LINK.findall(errors.text)[0])
        press_button(addresses["base_url"])
        url = f"{addresses['endpoint_url']}/v1/messages"
        assert (
            "no model behind it" in httpx.post(url, json={"max_tokens": 1}, timeout=PATIENCE_S).text
        )
        wait_until(
            lambda: len(LINE.findall(errors.text)) > CALLS,
            "the lines of all calls",
            patience_s=PATIENCE_S,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0, errors.text
        errors.close()  # so that all of it has been read
        assert len(LINE.findall(errors.text)) == CALLS + 1, "no line is of the history"
        warnings = [line for line in errors.text.splitlines() if " WARNING " in line]
        assert [line for line in warnings if OF_A_BUSY_MACHINE not in line] == []
        assert not data_dir.exists()
        assert not (tmp_path / "real").exists()


def sign_in(base_url: str, link: str) -> None:
    headers = {"origin": base_url}
    with httpx.Client(base_url=base_url, headers=headers, timeout=PATIENCE_S) as browser:
        token = link.partition("token=")[2]
        assert browser.get(link).status_code == 200
        assert browser.post("/sign-in/link", data={"token": token}).status_code == 303
        assert browser.get("/sessions").status_code == 200


def press_button(base_url: str) -> None:
    with httpx.Client(base_url=base_url, timeout=PATIENCE_S) as browser:
        elsewhere = {"origin": "https://evil.example"}
        assert browser.post("/sign-in/demo", headers=elsewhere).status_code == 403
        assert browser.post("/sign-in/demo", headers={"origin": base_url}).status_code == 303
        assert browser.get("/sessions").status_code == 200


def test_an_address_that_is_none_is_an_error_of_its_option(tmp_path: Path) -> None:
    done = call_here(("demo", "--listen", "x"), environ_of(tmp_path))
    assert done.returncode == 2
    assert "Invalid value for '--listen': 'x': write HOST:PORT, for example" in done.stderr


def test_the_demo_leaves_a_directory_alone_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    refused = call_here(("demo", "--keep", str(tmp_path / "mine")), environ_of(tmp_path))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "is not empty: the demo uses a directory of its own" in refused.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
