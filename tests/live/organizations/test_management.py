"""The management API through the front door of the running service."""

import json
import os
import random
import re
import shutil
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from manage.api.openapi import MAX_BODY_BYTES
from runtime.attempts import BAD_KEYS_PER_MINUTE
from store.control import activity_log, people
from store.control.database import ControlDatabase
from tests import ROOT
from tests.live.organizations.world import Person, World
from tests.live.service import REQUEST_HEADERS
from tests.rawclient import request

SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MILLISECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
CALLS_PER_SLUG = 280  # of the 300 that one may take in any minute


def code_of(answer: httpx.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert {"code", "message"} <= error.keys() <= {"code", "message", "field"}
    return answer.status_code, error["code"]


# --- the specification's tables -----------------------------------------------------------------


def test_proxy_endpoints_are_created_listed_and_deleted(world: World) -> None:
    created = world.ann.ask("POST", "/proxy-endpoints", json={"name": "Café #1"})
    assert created.status_code == 201
    endpoint = created.json()
    assert {"id", "name", "slug", "url", "created_at"} < endpoint.keys()
    assert (endpoint["name"], endpoint["slug"]) == ("Café #1", "cafe-1")
    assert endpoint["url"] == f"http://{world.service.host}/proxy/cafe-1"
    assert SECONDS.fullmatch(endpoint["created_at"])
    chosen = world.ann.ask("POST", "/proxy-endpoints", json={"name": "x", "slug": "my-slug"}).json()
    assert chosen["slug"] == "my-slug"
    again = world.ann.ask("POST", "/proxy-endpoints", json={"name": "Café #1"}).json()
    assert re.fullmatch(r"cafe-1-[a-z0-9]{4}", again["slug"])
    page = world.ann.ask("GET", "/proxy-endpoints").json()
    assert page.keys() == {"items", "nextCursor", "hasMore"}
    assert page["items"][:3] == [again, chosen, endpoint]
    for each in (again, chosen, endpoint):
        answer = world.ann.ask("DELETE", f"/proxy-endpoints/{each['id']}")
        assert (answer.status_code, answer.json()) == (200, {"ok": True})
    left = {item["id"] for item in world.ann.walk("/proxy-endpoints")}
    assert not left & {again["id"], chosen["id"], endpoint["id"]}


def test_keys_are_created_listed_used_and_deleted(world: World) -> None:
    created = world.bob.ask("POST", "/api-keys", json={"name": "Laptop"})
    assert created.status_code == 201
    key = created.json()
    assert key.keys() == {"id", "name", "key", "key_prefix", "created_at"}
    assert re.fullmatch(r"sk_[A-Za-z0-9_-]{43}", key["key"])
    assert key["key_prefix"] == f"{key['key'][:8]}..."
    assert MILLISECONDS.fullmatch(key["created_at"])

    def listed() -> dict[str, Any]:
        page = world.bob.ask("GET", "/api-keys", params={"limit": 1}).json()
        assert page["hasMore"] is True
        item: dict[str, Any] = page["items"][0]
        return item

    assert listed() == {
        "id": key["id"],
        "name": "Laptop",
        "key_prefix": key["key_prefix"],
        "last_used_at": None,
        "created_at": key["created_at"],
    }
    laptop = Person(world.service, key["key"])
    assert laptop.ask("GET", "/api-keys").status_code == 200
    assert MILLISECONDS.fullmatch(listed()["last_used_at"])
    assert laptop.ask("DELETE", f"/api-keys/{key['id']}").json() == {"ok": True}
    refused = laptop.ask("GET", "/api-keys")
    assert code_of(refused) == (401, "unauthorized")
    assert refused.headers["www-authenticate"] == "Bearer"


def test_pages_have_20_items_unless_told_otherwise_and_at_most_100(world: World) -> None:
    for number in range(25):
        world.dee.ask("POST", "/api-keys", json={"name": f"{number}"})
    first = world.dee.ask("GET", "/api-keys").json()
    assert (len(first["items"]), first["hasMore"]) == (20, True)
    second = world.dee.ask("GET", "/api-keys", params={"cursor": first["nextCursor"]}).json()
    assert (len(second["items"]), second["hasMore"], second["nextCursor"]) == (6, False, None)
    names = [item["name"] for item in first["items"] + second["items"]]
    assert names == [*(f"{number}" for number in reversed(range(25))), "first"]
    for limit, status in ((0, 400), (1, 200), (100, 200), (101, 400)):
        answer = world.dee.ask("GET", "/api-keys", params={"limit": limit})
        assert answer.status_code == status
    elsewhere = world.dee.ask("GET", "/proxy-endpoints", params={"cursor": first["nextCursor"]})
    assert code_of(elsewhere) == (400, "invalid_input")


def test_a_change_of_streaming_and_bodies_holds_for_the_next_call(world: World) -> None:
    world.ann.ask("POST", "/proxy-endpoints", json={"name": "Changing"})
    assert world.service.send(world.message("changing")).status == 200
    world.ann.ask("PATCH", "/proxy-endpoints/changing", json={"metadata_only": True})
    assert world.service.send(world.message("changing")).status == 200
    assert [row["request_body"] for row in world.rows("changing")] == ["{}", None]


def test_usage_is_summed_for_the_organisation_that_used_it(world: World) -> None:
    world.cid.ask("POST", "/proxy-endpoints", json={"name": "Used"})
    for _ in range(3):
        assert world.service.send(world.message("used")).status == 200
    world.service.wait_spool_empty()
    usage = world.dee.ask("GET", "/usage", params={"by": "endpoint"}).json()
    (group,) = (group for group in usage["groups"] if group["slug"] == "used")
    assert (group["calls"], group["input_tokens"], group["output_tokens"]) == (3, 33, 21)
    assert group["cost_cents"] > 0
    by_model = world.dee.ask("GET", "/usage", params={"by": "model"}).json()
    assert by_model["totals"] == usage["totals"]
    theirs = world.ann.ask("GET", "/usage", params={"by": "endpoint"}).json()
    assert "used" not in {group["slug"] for group in theirs["groups"]}
    past = world.dee.ask("GET", "/usage", params={"to": "2020-01-01"}).json()
    assert (past["totals"]["calls"], past["groups"]) == (0, [])


# --- who may do what ----------------------------------------------------------------------------


def test_organisations_see_list_and_delete_nothing_of_each_other(world: World) -> None:
    endpoint = world.ann.ask("POST", "/proxy-endpoints", json={"name": "Private"}).json()
    assert endpoint in world.bob.walk("/proxy-endpoints")
    for stranger in (world.cid, world.dee):
        assert endpoint["id"] not in {item["id"] for item in stranger.walk("/proxy-endpoints")}
        for name in (endpoint["id"], "private"):
            for method in ("GET", "PATCH", "DELETE"):
                more = {"json": {"name": "stolen"}} if method == "PATCH" else {}
                answer = stranger.ask(method, f"/proxy-endpoints/{name}", **more)
                assert code_of(answer) == (404, "not_found")
        taken = stranger.ask("POST", "/proxy-endpoints", json={"name": "x", "slug": "private"})
        assert code_of(taken) == (409, "slug_taken")
    assert world.bob.ask("DELETE", f"/proxy-endpoints/{endpoint['id']}").status_code == 200
    reserved = world.cid.ask("POST", "/proxy-endpoints", json={"name": "x", "slug": "private"})
    assert code_of(reserved) == (409, "slug_taken")
    back = world.bob.ask("POST", "/proxy-endpoints", json={"name": "x", "slug": "private"})
    assert back.status_code == 201


def test_a_colleagues_key_is_403_and_a_strangers_404(world: World) -> None:
    key = world.ann.ask("POST", "/api-keys", json={"name": "Ann's"}).json()
    for other in (world.bob, world.cid, world.dee):
        assert key["id"] not in {item["id"] for item in other.walk("/api-keys")}
    answers = [
        code_of(other.ask("DELETE", f"/api-keys/{key['id']}"))
        for other in (world.bob, world.cid, world.dee)
    ]
    assert answers == [(403, "forbidden"), (404, "not_found"), (404, "not_found")]
    assert world.ann.ask("DELETE", f"/api-keys/{key['id']}").status_code == 200


def test_bad_keys_are_limited_by_the_real_address_of_the_client(world: World) -> None:
    def ask(address: str, **headers: str) -> httpx.Response:
        headers = {"authorization": f"Bearer sk_{'A' * 43}", "x-forwarded-for": address} | headers
        return httpx.get(
            f"http://{world.service.host}/api/api-keys",
            headers=headers,
            verify=False,  # noqa: S501 - as above
        )

    forged = {"x-taximeter-client": "mark 203.0.113.9"}
    statuses = Counter(ask("203.0.113.7").status_code for _ in range(BAD_KEYS_PER_MINUTE))
    assert statuses == {401: BAD_KEYS_PER_MINUTE}
    limited = ask("203.0.113.7", **forged)
    assert code_of(limited) == (429, "rate_limited")
    assert 0 < int(limited.headers["retry-after"]) <= 60
    assert ask("203.0.113.8").status_code == 401


def test_a_body_too_large_is_refused_and_the_service_goes_on(world: World) -> None:
    with world.ann.connect() as client:
        for size in (MAX_BODY_BYTES + 1, 10_000_000):
            body = b'{"name":"x"}'.ljust(size)
            headers = {"content-type": "application/json"}
            answer = client.post("/api-keys", content=body, headers=headers)
            assert code_of(answer) == (413, "too_large")
            pieces = (body[at : at + 60_000] for at in range(0, size, 60_000))
            answer = client.post("/api-keys", content=pieces, headers=headers)
            assert code_of(answer) == (413, "too_large")
            assert client.get("/api-keys").status_code == 200


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
    world.service.wait_spool_empty()
    secret = raw[8:].encode()  # the prefix is shown
    files = [path for path in world.service.data_dir.rglob("*") if path.is_file()]
    assert {"control.db", "traces.db"} <= {path.name for path in files}
    assert [path for path in files if secret in path.read_bytes()] == []
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
    """160 endpoints come and go; each takes a call as soon as it is there, and refuses one as soon as
    it is not. Calls to other endpoints notice nothing."""
    stop = threading.Event()
    for slug in ("steady-1", "steady-2"):
        world.ann.ask("POST", "/proxy-endpoints", json={"name": slug})

    def churn(worker: int) -> list[tuple[int, int, int]]:
        seen = []
        with world.cid.connect() as client, world.service.connect() as caller:
            for number in range(80):
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
                assert Counter(each.result()) == {(200, 200, 404): 80}
        finally:
            stop.set()
        calls = {slug: each.result() for slug, each in traffic.items()}
    for slug, statuses in calls.items():
        assert statuses == {200: len(world.rows(slug))}
        assert statuses.total() > 20
    assert len(world.rows("churn-0-7")) == 1


@pytest.mark.parametrize("path", ["/proxy-endpoints", "/api-keys"])
def test_a_walk_sees_what_stays_exactly_once_while_others_come_and_go(
    world: World, path: str
) -> None:
    stays = {
        world.dee.ask("POST", path, json={"name": f"stays {number}"}).json()["id"]
        for number in range(15)
    }
    stop = threading.Event()

    def come_and_go(seed: int) -> int:
        dice, done = random.Random(seed), 0  # noqa: S311 - no secret
        mine: list[str] = []
        with world.dee.connect() as client:
            while not stop.is_set():
                if mine and dice.random() < 0.5:
                    gone = mine.pop(dice.randrange(len(mine)))
                    assert client.delete(f"{path}/{gone}").status_code == 200
                else:
                    mine.append(client.post(path, json={"name": "comes"}).json()["id"])
                done += 1
        return done

    with ThreadPoolExecutor(2) as pool:
        changing = [pool.submit(come_and_go, seed) for seed in range(2)]
        try:
            for limit in (1, 3, 20, 100):
                seen = Counter(item["id"] for item in world.dee.walk(path, limit))
                assert {seen[each] for each in stays} == {1}
                assert set(seen.values()) == {1}
        finally:
            stop.set()
        assert sum(each.result() for each in changing) > 20


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    name=st.one_of(
        st.text(st.characters(categories=None), max_size=220),
        st.sampled_from(["\ud800", "a\x00b", "שלום \u202e עולם", "x" * 10_000, "é" * 200]),
    )
)
def test_any_name_is_stored_as_it_is_or_refused(world: World, name: str) -> None:
    answer = world.cid.ask(
        "POST",
        "/proxy-endpoints",
        content=json.dumps({"name": name}),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code in (201, 400)
    if answer.status_code == 201:
        endpoint = answer.json()
        assert endpoint["name"] == name.strip()
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", endpoint["slug"])
        assert len(endpoint["slug"]) <= 63
        assert world.cid.ask("GET", f"/proxy-endpoints/{endpoint['slug']}").json() == endpoint


# --- the documentation --------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("curl") is None,
    reason="there is no curl, which the examples use; `apt-get install curl` brings it",
)
def test_the_examples_of_the_documentation_run(world: World) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    examples = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert len(examples) > 8
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail"],
        input="\n".join(f"{example}\necho" for example in examples),
        env={
            "PATH": os.environ["PATH"],
            "TAXIMETER_BASE_URL": f"http://{world.service.host}",
            "TAXIMETER_API_KEY": world.ann.raw_key,  # who is an owner
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ('"slug":"build-server"', '"streaming":"buffered"', '{"ok":true}', '"groups":'):
        assert part in done.stdout
    assert done.stderr == ""
