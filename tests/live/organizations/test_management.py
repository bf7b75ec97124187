"""The management API through the front door of the running service."""

import os
import re
import shutil
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from runtime.attempts import BAD_KEYS_PER_MINUTE
from store.control import activity_log, people
from store.control.database import ControlDatabase
from tests import ROOT
from tests.live.organizations.world import Person, World
from tests.live.service import REQUEST_HEADERS
from tests.live.wire.checks import files_with
from tests.rawclient import request
from tests.upstream import PATIENCE_S

CALLS_PER_SLUG = 280  # of the 300 that one may take in any minute
# In docs/api.md.
SESSION_OF_EXAMPLES, CALL_OF_EXAMPLES = "1b8ed7e8-8b48-42c8-99fc-439b7b12e67f", 4711


def code_of(answer: httpx.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert {"code", "message"} <= error.keys() <= {"code", "message", "field"}
    return answer.status_code, error["code"]


def test_a_change_of_streaming_and_bodies_holds_for_the_next_call(world: World) -> None:
    world.ann.ask("POST", "/proxy-endpoints", json={"name": "Changing"})
    assert world.service.send(world.message("changing")).status == 200
    world.ann.ask("PATCH", "/proxy-endpoints/changing", json={"metadata_only": True})
    assert world.service.send(world.message("changing")).status == 200
    assert [row["request_body"] for row in world.rows("changing")] == ["{}", None]


# --- who may do what ----------------------------------------------------------------------------


def test_bad_keys_are_limited_by_the_real_address_of_the_client(world: World) -> None:
    def ask(address: str, **headers: str) -> httpx.Response:
        headers = {"authorization": f"Bearer sk_{'A' * 43}", "x-forwarded-for": address} | headers
        return httpx.get(
            f"http://{world.service.host}/api/api-keys",
            headers=headers,
            timeout=PATIENCE_S,
            verify=False,  # noqa: S501 - there is no TLS
        )

    forged = {"x-taximeter-client": "mark 203.0.113.9"}
    statuses = Counter(ask("203.0.113.7").status_code for _ in range(BAD_KEYS_PER_MINUTE))
    assert statuses == {401: BAD_KEYS_PER_MINUTE}
    limited = ask("203.0.113.7", **forged)
    assert code_of(limited) == (429, "rate_limited")
    assert 0 < int(limited.headers["retry-after"]) <= 60
    assert ask("203.0.113.8").status_code == 401


# --- the raw key --------------------------------------------------------------------------------


def test_a_raw_key_is_shown_once_and_kept_nowhere(world: World) -> None:
    raw: str = world.ann.ask("POST", "/api-keys", json={"name": "Secret"}).json()["key"]
    holder = Person(world.service, raw)
    shown = [holder.ask("GET", "/api-keys").text, holder.ask("GET", "/proxy-endpoints").text]
    shown.append(holder.ask("POST", "/api-keys", json={"nmae": "x"}).text)
    # A key sent to the wrong place is not kept either.
    headers = [*REQUEST_HEADERS, ("authorization", f"Bearer {raw}")]
    world.ann.ask("POST", "/proxy-endpoints", json={"name": "Mixed up"})
    world.service.send(request("POST", "/proxy/mixed-up/v1/messages", headers, b"{}"))
    assert world.service.send(world.message("mixed-up")).status == 200
    world.service.wait_spool_empty()
    secret = raw[8:].encode()  # the prefix is shown
    assert files_with(world.service, b"SQLite format 3") != [], "there are files to look into"
    assert files_with(world.service, secret) == []
    assert secret.decode() not in world.service.output
    for text in shown:
        assert secret.decode() not in text
    processes = [psutil.Process(pid) for pid in (world.service.pid, *world.service.pids().values())]
    for process in processes:
        assert secret.decode() not in f"{process.cmdline()} {process.environ()}"
    with ControlDatabase(world.service.data_dir / "control.db") as control, control.reading() as db:
        organization_id = people.get_member(db, "ann@example.org").organization_id
        log = activity_log.read(db, organization_id, 1000)
    (created,) = (entry for entry in log if entry.details.get("name") == "Secret")
    assert (created.email, created.action) == ("ann@example.org", "key.create")
    assert secret.decode() not in repr(log)


# --- while others work --------------------------------------------------------------------------


def test_slugs_work_and_fail_at_once_while_traffic_runs(world: World) -> None:
    """60 endpoints come and go; each takes a call as soon as it is there, and refuses one as soon as
    it is not. Calls to other endpoints notice nothing."""
    stop = threading.Event()
    for slug in ("steady-1", "steady-2"):
        world.ann.ask("POST", "/proxy-endpoints", json={"name": slug})

    def churn(worker: int) -> list[tuple[int, int, int]]:
        seen = []
        with world.cid.connect() as client, world.service.connect() as caller:
            for number in range(30):
                slug = f"churn-{worker}-{number}"
                endpoint = client.post("/proxy-endpoints", json={"name": slug}).json()
                works = caller.exchange(world.message(slug)).status
                deleted = client.delete(f"/proxy-endpoints/{endpoint['id']}").status_code
                seen.append((works, deleted, caller.exchange(world.message(slug)).status))
        return seen

    def keep_calling(slug: str) -> Counter[int]:
        statuses: Counter[int] = Counter()
        with world.service.connect() as caller:
            while not stop.is_set() and statuses.total() < CALLS_PER_SLUG:
                statuses[caller.exchange(world.message(slug)).status] += 1
        return statuses

    with ThreadPoolExecutor(4) as pool:
        traffic = {slug: pool.submit(keep_calling, slug) for slug in ("steady-1", "steady-2")}
        churned = [pool.submit(churn, worker) for worker in range(2)]
        try:
            for each in churned:
                assert Counter(each.result()) == {(200, 200, 404): 30}
        finally:
            stop.set()
        calls = {slug: each.result() for slug, each in traffic.items()}
    for slug, statuses in calls.items():
        assert statuses == {200: len(world.rows(slug))}
        assert statuses.total() > 20
    assert len(world.rows("churn-0-7")) == 1


# --- the documentation --------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("curl") is None,
    reason="there is no curl, which the examples use; `apt-get install curl` brings it",
)
def test_the_examples_of_the_documentation_run(world: World) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    examples = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert len(examples) > 8
    # The endpoint of a run, and the session and the call that a label and a note are about.
    for name in ("Nightly", "Labelled"):
        world.ann.ask("POST", "/proxy-endpoints", json={"name": name})
    headers = (*REQUEST_HEADERS, ("x-claude-code-session-id", SESSION_OF_EXAMPLES))
    world.service.send(request("POST", "/proxy/labelled/v1/messages", headers, b"{}"))
    (row,) = world.rows("labelled")
    script = "\n".join(f"{example}\necho" for example in examples)
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail"],
        input=script.replace(f"/call/{CALL_OF_EXAMPLES}", f"/call/{row['id']}"),
        env={
            "PATH": os.environ["PATH"],
            "TAXIMETER_BASE_URL": f"http://{world.service.host}",
            "TAXIMETER_API_KEY": world.ann.raw_key,  # who is an owner
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ('"slug":"build-server"', '"streaming":"buffered"', '{"ok":true}', '"groups":'):
        assert part in done.stdout
    assert done.stderr == ""
