import re
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import replace
from queue import Queue

import pytest
from starlette.testclient import TestClient

from manage.api import openapi, routes, search_operations
from manage.api.operations import OPERATIONS
from manage.server import make_app
from manage.supervision.workers import COUNT
from runtime.attempts import BAD_KEYS_PER_MINUTE
from runtime.errors import CODES
from runtime.setting_values import parse_upstreams
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from store.traces.database import TraceDatabase
from store.traces.search.indexer import Indexer
from store.traces.search.reader import Found
from tests import ROOT
from tests.manage.api.conftest import BASE_URL
from tests.store.traces.search.conversation import record, request, response, user
from tests.upstream import PATIENCE_S

KEY = re.compile(r"sk_[A-Za-z0-9_-]{43}")
SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
MILLISECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def error_of(answer, status, code, field=None):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) == {"code", "message"} | ({"field"} if field else set())
    assert (error["code"], error.get("field")) == (code, field)
    assert error["message"]
    return error["message"]


def test_an_endpoint_has_exactly_the_documented_fields(ann):
    created = ann("POST", "/proxy-endpoints", json={"name": "Café #1"})
    assert created.status_code == 201
    endpoint = created.json()
    assert list(endpoint) == [
        "id",
        "name",
        "slug",
        "url",
        "created_at",
        "streaming",
        "metadata_only",
        "upstream",
        "upstream_url",
    ]
    assert endpoint["name"] == "Café #1"
    assert endpoint["slug"] == "cafe-1"
    assert endpoint["url"] == f"{BASE_URL}/proxy/cafe-1"
    assert SECONDS.fullmatch(endpoint["created_at"])
    assert (endpoint["streaming"], endpoint["metadata_only"]) == (None, False)
    listed = ann("GET", "/proxy-endpoints").json()
    assert listed == {"items": [endpoint], "nextCursor": None, "hasMore": False}
    for key in (endpoint["id"], endpoint["slug"]):
        assert ann("GET", f"/proxy-endpoints/{key}").json() == endpoint
    assert ann("DELETE", f"/proxy-endpoints/{endpoint['id']}").json() == {"ok": True}
    assert ann("GET", "/proxy-endpoints").json()["items"] == []


def test_a_key_has_exactly_the_documented_fields(ann):
    created = ann("POST", "/api-keys", json={"name": "Laptop"})
    assert created.status_code == 201
    key = created.json()
    assert list(key) == ["id", "name", "key", "key_prefix", "created_at"]
    assert KEY.fullmatch(key["key"])
    assert key["key_prefix"] == key["key"][:8] + "..."
    assert MILLISECONDS.fullmatch(key["created_at"])
    assert UUID.fullmatch(key["id"])
    new, old = ann("GET", "/api-keys").json()["items"]
    assert list(new) == ["id", "name", "key_prefix", "last_used_at", "created_at"]
    assert new == {name: key[name] for name in new if name != "last_used_at"} | {
        "last_used_at": None
    }
    assert MILLISECONDS.fullmatch(old["last_used_at"])
    assert ann("DELETE", f"/api-keys/{key['id']}").json() == {"ok": True}


def test_a_change_changes_what_it_names(ann):
    ann("POST", "/proxy-endpoints", json={"name": "Mine", "streaming": "live"})
    changed = ann("PATCH", "/proxy-endpoints/mine", json={"name": "Ours"}).json()
    assert (changed["name"], changed["streaming"]) == ("Ours", "live")
    changed = ann(
        "PATCH", "/proxy-endpoints/mine", json={"streaming": None, "metadata_only": True}
    ).json()
    assert (changed["name"], changed["streaming"], changed["metadata_only"]) == (
        "Ours",
        None,
        True,
    )
    assert ann("PATCH", "/proxy-endpoints/mine", json={}).json() == changed
    assert ann("GET", "/proxy-endpoints/mine").json() == changed


def test_retention_is_set_and_previewed(ann, ask):
    rule = {"text_days": 30, "entry_days": 365, "max_bytes": 10**10}
    state = ann("PUT", "/retention", json=rule).json()
    assert {name: state[name] for name in rule} == rule
    assert list(state) == [*rule, "size_bytes", "next_run", "last_run"]
    assert list(state["next_run"]) == ["at", "entries", "texts", "bytes"]
    assert ann("GET", "/retention").json() == ask("bob", "GET", "/retention").json() == state
    wrong = {"text_days": 2, "entry_days": 1}
    error_of(ann("PUT", "/retention", json=wrong), 400, "invalid_input", "text_days")
    error_of(ann("PUT", "/retention", json={"text_days": "1"}), 400, "invalid_input", "text_days")
    assert ask("cid", "GET", "/retention").json()["next_run"] is None


def test_an_endpoint_has_retention_of_its_own(ann):
    ann("POST", "/proxy-endpoints", json={"name": "Mine"})
    path = "/proxy-endpoints/mine/retention"
    assert ann("GET", path).json() == {"text_days": None, "entry_days": None}
    assert ann("PUT", path, json={"text_days": 1}).json() == {"text_days": 1, "entry_days": None}
    assert ann("GET", path).json() == {"text_days": 1, "entry_days": None}
    error_of(ann("PUT", path, json={"max_bytes": 1}), 400, "invalid_input", "max_bytes")


@pytest.mark.parametrize("change", ["PATCH", "DELETE"])
@pytest.mark.parametrize("guard", ["budget", "retention"])
def test_an_endpoint_with_a_decision_of_an_owner_is_theirs_to_change(ann, ask, guard, change):
    ann("POST", "/proxy-endpoints", json={"name": "Mine"})
    path, body = "/proxy-endpoints/mine", {"json": {"name": "Other"}} if change == "PATCH" else {}
    decided = {"budget": {"period": "day", "limit_usd": 1}, "retention": {"text_days": 1}}[guard]
    before = ann("PUT", f"{path}/{guard}", json=decided).json()
    message = error_of(ask("bob", change, path, **body), 403, "forbidden")
    assert message.startswith("Only an owner of the organisation may ")
    assert guard in message
    error_of(ask("cid", change, path, **body), 404, "not_found")
    assert ann(change, path, **body).status_code == 200
    if change == "DELETE":
        error_of(ann("GET", f"{path}/{guard}"), 404, "not_found")
        assert ask("bob", "POST", "/proxy-endpoints", json={"name": "Mine"}).status_code == 201
    assert ask("bob", "GET", f"{path}/{guard}").json() == before


@pytest.mark.parametrize("wanted", [True, False])
def test_whether_bodies_are_stored_is_for_owners(ann, ask, wanted):
    new = {"name": "Mine", "metadata_only": not wanted}
    assert ask("bob", "POST", "/proxy-endpoints", json=new).status_code == 201
    change = {"json": {"metadata_only": wanted}}
    message = error_of(ask("bob", "PATCH", "/proxy-endpoints/mine", **change), 403, "forbidden")
    assert "bodies of 'mine' are stored" in message
    assert ask("bob", "DELETE", "/proxy-endpoints/mine").status_code == 200
    again = {"name": "Mine", "metadata_only": wanted}
    error_of(ask("bob", "POST", "/proxy-endpoints", json=again), 403, "forbidden")
    made = ask("bob", "POST", "/proxy-endpoints", json={"name": "Mine"})
    assert (made.status_code, made.json()["metadata_only"]) == (201, not wanted)
    assert ann("PATCH", "/proxy-endpoints/mine", **change).json()["metadata_only"] is wanted


def test_an_erasure_is_counted_ordered_and_followed(ann):
    counted = ann("POST", "/erasures", json={"session": "s", "dry_run": True})
    assert counted.status_code == 202
    nothing = {"entries": 0, "set_aside": 0, "erased_at": None, "ended_at": None}
    of_a_cluster: dict[str, list[str]] = {"copies": [], "unshipped": [], "fingerprints": []}
    unordered = {"id": None, "ordered_at": None, "what": None}
    assert counted.json() == unordered | nothing | of_a_cluster
    assert ann("GET", "/erasures").json() == {"items": []}
    order = ann("POST", "/erasures", json={"client": "x", "from": "2026-01-01"}).json()
    said = {"ordered_at": order["ordered_at"], "what": "client, period"}
    assert order == {"id": order["id"]} | said | nothing | of_a_cluster
    assert ann("GET", f"/erasures/{order['id']}").json() == order
    assert ann("GET", "/erasures").json() == {"items": [order]}
    error_of(ann("POST", "/erasures", json={}), 400, "invalid_input")
    error_of(ann("POST", "/erasures", json={"from": "soon"}), 400, "invalid_input", "from")


def test_pages_follow_each_other(ann):
    made = [ann("POST", "/proxy-endpoints", json={"name": "x"}).json()["id"] for _ in range(45)]
    seen, cursor, sizes = [], None, []
    while True:
        page = ann("GET", "/proxy-endpoints", params={"cursor": cursor} if cursor else {}).json()
        seen += [item["id"] for item in page["items"]]
        sizes.append(len(page["items"]))
        assert page["hasMore"] == (page["nextCursor"] is not None)
        cursor = page["nextCursor"]
        if not cursor:
            break
    assert seen == made[::-1]
    assert sizes == [20, 20, 5]


def test_a_bad_page_is_refused(ann, subtests):
    for query, field in (
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=", "limit"),
        ("limit=ten", "limit"),
        ("limit=1.0", "limit"),
        ("limit=1_0", "limit"),
        ("limit=%D9%A3", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=", "cursor"),
        ("cursor=x", "cursor"),
        ("cursor=%ED%A0%80", "cursor"),
        ("page=2", "page"),
    ):
        for path in ("/proxy-endpoints", "/api-keys"):
            with subtests.test(query, path=path):
                error_of(ann("GET", f"{path}?{query}"), 400, "invalid_input", field)


def test_the_bounds_of_limit_are_within(ann):
    for limit in (1, 100):
        assert ann("GET", f"/api-keys?limit={limit}").status_code == 200, limit


def test_a_bad_endpoint_is_refused(ann, subtests):
    for body, field in (
        ({}, "name"),
        ({"name": None}, "name"),
        ({"name": 1}, "name"),
        ({"name": ["a"]}, "name"),
        ({"name": ""}, "name"),
        ({"name": "\x00"}, "name"),
        ({"name": "x" * 10_000}, "name"),
        ({"name": "x", "slug": ""}, "slug"),
        ({"name": "x", "slug": "A"}, "slug"),
        ({"name": "x", "slug": "a" * 64}, "slug"),
        ({"name": "x", "slug": "a\n"}, "slug"),
        ({"name": "x", "streaming": "fast"}, "streaming"),
        ({"name": "x", "metadata_only": 1}, "metadata_only"),
        ({"name": "x", "metadata_only": "true"}, "metadata_only"),
        ({"name": "x", "metadata_only": None}, "metadata_only"),
        ({"name": "x", "id": "1"}, "id"),
    ):
        with subtests.test(str(body)[:50]):
            error_of(ann("POST", "/proxy-endpoints", json=body), 400, "invalid_input", field)
            assert ann("GET", "/proxy-endpoints").json()["items"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"name": None},
        {"metadata_only": None},
        {"slug": "x"},
        {"streaming": "service"},
        {"name": " "},
    ],
)
def test_a_bad_change_is_refused(ann, body):
    ann("POST", "/proxy-endpoints", json={"name": "x"})
    error_of(ann("PATCH", "/proxy-endpoints/x", json=body), 400, "invalid_input", next(iter(body)))


def test_what_is_no_json_object_is_refused(ann, subtests):
    headers = {"content-type": "application/json"}
    for body in (
        b"",
        b"{",
        b"[]",
        b"null",
        b'"name"',
        b"\xff",
        b'{"name": "\\ud800"}',
        b'{"name": NaN}',
        b"[" * 60_000,
        b'{"name": "x"} {}',
        b'\xef\xbb\xbf{"name": "x"}',
    ):
        with subtests.test(str(body[:50])):
            error_of(ann("POST", "/api-keys", content=body, headers=headers), 400, "invalid_input")


def test_a_body_that_is_not_said_to_be_json_is_refused(ann, subtests):
    for content_type in (
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
    ):
        with subtests.test(content_type):
            answer = ann(
                "POST", "/api-keys", content=b'{"name":"x"}', headers={"content-type": content_type}
            )
            error_of(answer, 415, "unsupported_media_type")


def test_json_with_a_charset_is_json(ann):
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert ann("POST", "/api-keys", content=b'{"name":"x"}', headers=headers).status_code == 201


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_is_limited_to_64_kb(ann, chunked):
    headers = {"content-type": "application/json"}

    def send(size):
        body = b'{"name":"x"}'.ljust(size)
        pieces = (body[at : at + 5000] for at in range(0, size, 5000))
        return ann("POST", "/api-keys", content=pieces if chunked else body, headers=headers)

    assert send(openapi.MAX_BODY_BYTES).status_code == 201
    error_of(send(openapi.MAX_BODY_BYTES + 1), 413, "too_large")


@pytest.mark.slow
def test_without_a_good_key_nothing_is_answered(client, subtests):
    for number, operation in enumerate(OPERATIONS):
        with subtests.test(operation.name):
            for authorization in (None, "Bearer sk_no", "Basic eA==", "Bearer"):
                headers = {"x-taximeter-client": f"mark 10.0.0.{number}"}  # each has few attempts
                headers |= {"authorization": authorization} if authorization else {}
                answer = client.request(operation.method, f"/api{operation.path}", headers=headers)
                error_of(answer, 401, "unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer", authorization


def test_an_upstream_credential_is_no_service_key(client, keys):
    for headers in ({"x-api-key": keys["ann"]}, {"cookie": f"taximeter-8080={keys['ann']}"}):
        error_of(client.get("/api/api-keys", headers=headers), 401, "unauthorized")


def test_too_many_bad_keys_of_one_address_are_told_to_wait(client, keys):
    def ask(key, address, mark="mark"):
        headers = {"authorization": f"Bearer {key}", "x-taximeter-client": f"{mark} {address}"}
        return client.get("/api/api-keys", headers=headers)

    for _ in range(BAD_KEYS_PER_MINUTE):
        error_of(ask("sk_no", "10.0.0.7"), 401, "unauthorized")
    refused = ask("sk_no", "10.0.0.7")
    error_of(refused, 429, "rate_limited")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    error_of(ask("sk_no", "10.0.0.8"), 401, "unauthorized")
    assert ask(keys["ann"], "10.0.0.7").status_code == 200, "a good key passes"


def test_bad_keys_are_counted_once_for_the_api_and_the_pages(client):
    headers = {"authorization": "Bearer sk_no", "x-taximeter-client": "mark 10.0.0.7"}
    statuses = [
        client.get(path, headers=headers).status_code
        for path in ("/api/api-keys", "/traces/usage_log.json") * BAD_KEYS_PER_MINUTE
    ]
    assert statuses == [401] * BAD_KEYS_PER_MINUTE + [429] * BAD_KEYS_PER_MINUTE


def test_an_organisation_has_only_so_many_endpoints(settings, keys):
    headers = {"authorization": f"Bearer {keys['ann']}"}
    limited = replace(settings, max_endpoints=2)
    with TestClient(make_app(limited), base_url=BASE_URL, headers=headers) as client:
        for number in range(2):
            assert client.post("/api/proxy-endpoints", json={"name": f"e{number}"}).is_success
        refused = client.post("/api/proxy-endpoints", json={"name": "e2"})
        error_of(refused, 409, "conflict")
        assert "TAXIMETER_MAX_ENDPOINTS" in refused.text
        headers = {"authorization": f"Bearer {keys['cid']}"}
        assert client.post("/api/proxy-endpoints", json={"name": "x"}, headers=headers).is_success


def test_an_endpoint_has_an_upstream_that_the_operator_names(settings, keys):
    headers = {"authorization": f"Bearer {keys['ann']}"}
    named = replace(settings, upstreams=parse_upstreams("eu=https://eu.example.org"))
    with TestClient(make_app(named), base_url=BASE_URL, headers=headers) as client:
        body = {"name": "Europe", "upstream": "eu"}
        created = client.post("/api/proxy-endpoints", json=body).json()
        assert (created["upstream"], created["upstream_url"]) == ("eu", "https://eu.example.org")
        here = f"/api/proxy-endpoints/{created['id']}"
        assert client.patch(here, json={"name": "EU"}).json()["upstream"] == "eu"
        refused = client.patch(here, json={"upstream": "https://evil.example"})
        assert "TAXIMETER_UPSTREAMS (eu)" in error_of(refused, 400, "invalid_input", "upstream")
        member = {"authorization": f"Bearer {keys['bob']}"}
        error_of(client.patch(here, json={"upstream": None}, headers=member), 403, "forbidden")
        assert client.patch(here, json={"upstream": None}).json()["upstream"] is None


def test_whoever_forges_the_client_header_is_counted_by_their_own_address(client):
    answers = [
        client.get(
            "/api/api-keys",
            headers={"authorization": "Bearer sk_no", "x-taximeter-client": f"forged 10.0.0.{n}"},
        ).status_code
        for n in range(BAD_KEYS_PER_MINUTE + 1)
    ]
    assert answers == [401] * BAD_KEYS_PER_MINUTE + [429]


def test_a_taken_slug_is_a_conflict(ask):
    assert ask("ann", "POST", "/proxy-endpoints", json={"name": "x"}).status_code == 201
    for who in ("ann", "cid"):
        body = {"name": "y", "slug": "x"}
        error_of(ask(who, "POST", "/proxy-endpoints", json=body), 409, "slug_taken", "slug")


def test_a_colleagues_key_is_403_and_a_strangers_404(ask):
    (key,) = ask("ann", "GET", "/api-keys").json()["items"]
    error_of(ask("bob", "DELETE", f"/api-keys/{key['id']}"), 403, "forbidden")
    for who in ("cid", "dee"):
        error_of(ask(who, "DELETE", f"/api-keys/{key['id']}"), 404, "not_found")
    error_of(ask("ann", "DELETE", "/api-keys/nothing"), 404, "not_found")
    assert ask("ann", "DELETE", f"/api-keys/{key['id']}").status_code == 200
    error_of(ask("ann", "GET", "/api-keys"), 401, "unauthorized")


def test_a_run_has_zeros_before_anything_was_recorded(ann):
    run = ann("GET", "/runs/build-42").json()
    assert (run["run_id"], run["pending"], run["models"]) == ("build-42", 0, [])
    assert (run["totals"]["calls"], run["totals"]["rejected"]) == (0, None)


def test_usage_is_empty_before_anything_was_recorded(ann):
    usage = ann("GET", "/usage?by=endpoint&from=2026-01-01&to=2026-01-31").json()
    assert list(usage) == ["by", "from", "to", "totals", "groups", "month", "products"]
    assert usage["month"]["cost_cents"] == 0
    assert usage["month"]["expected_cost_cents"] is None
    assert (usage["by"], usage["from"], usage["to"]) == ("endpoint", "2026-01-01", "2026-01-31")
    assert usage["groups"] == []
    assert set(usage["totals"].values()) == {0}


def test_a_bad_question_for_usage_is_refused(ann, subtests):
    for query, field in (
        ("by=hour", "by"),
        ("from=today", "from"),
        ("from=2026-13-01", "from"),
        ("from=20260101", "from"),
        ("to=1767225600", "to"),
        ("from=2026-02-01&to=2026-01-01", "from"),
        ("from_day=2026-01-01", "from_day"),
    ):
        with subtests.test(query[:50]):
            error_of(ann("GET", f"/usage?{query}"), 400, "invalid_input", field)


def test_calls_are_searched_and_counted_in_the_own_organisation_alone(ann, ask, traces_path):
    assert ann("GET", "/search?q=wombat").json() == {"items": [], "hasMore": False}
    with TraceDatabase(traces_path) as traces:
        calls = [(request(user(f"the wombat {n}")), response("a numbat")) for n in range(3)]
        record(traces, *calls)
        Indexer(traces.connection, time.monotonic).run(60)
    found = ann("GET", "/search?q=wombat&limit=2&role=user").json()
    assert [(each["id"], each["role"], each["slug"]) for each in found["items"]] == [
        (3, "user", "default"),
        (2, "user", "default"),
    ]
    assert found["hasMore"] is True
    assert "wombat 2" in found["items"][0]["snippet"]
    assert ann("GET", "/search?q=wombat&endpoint=other").json()["items"] == []
    assert ask("cid", "GET", "/search?q=wombat").json()["items"] == []
    counted = [ask(who, "GET", "/usage").json()["totals"]["calls"] for who in ("bob", "cid")]
    assert counted == [3, 0]


def test_a_bad_search_is_refused(ann, subtests):
    for query, field in (
        ("", "q"),
        ("q=x&role=nobody", "role"),
        ("q=x&limit=0", "limit"),
        (f"q={'x' * 1001}", "q"),
    ):
        with subtests.test(query[:50]):
            error_of(ann("GET", f"/search?{query}"), 400, "invalid_input", field)


@pytest.fixture
def waiting_search(monkeypatch):
    """Lets searches wait: a queue of those that began, and the event that ends them."""
    began, is_over = Queue[object](), threading.Event()

    def search(_path, query, *_):
        began.put(query)
        is_over.wait()
        return Found(hits=[])

    monkeypatch.setattr(search_operations, "search_file", search)
    return began, is_over


@pytest.fixture
def searching(ask, waiting_search):
    """Have ann search so often at once, until the block ends; yields which began, and the responses."""

    @contextmanager
    def searching(count):
        began, is_over = waiting_search
        with ThreadPoolExecutor(count) as pool:
            responses = [pool.submit(ask, "ann", "GET", f"/search?q={n}") for n in range(count)]
            try:
                began.get()
                yield began, responses
            finally:
                is_over.set()

    return searching


def test_an_organization_leaves_threads_to_the_others(searching, ask):
    with searching(COUNT + 2) as (began, responses):
        assert ask("cid", "GET", "/proxy-endpoints").status_code == 200
        assert began.empty()
    assert {each.result().status_code for each in responses} == {200}
    assert began.qsize() == COUNT + 1


@pytest.fixture
def few_turns(monkeypatch):
    monkeypatch.setattr(routes, "MAX_WAITING", 2)


def test_of_too_many_requests_of_an_organization_the_last_are_refused(few_turns, searching):
    with searching(3) as (_, responses):
        refused = next(as_completed(responses)).result()
        error_of(refused, 503, "unavailable")
        assert refused.headers["retry-after"] == "3"
    assert sorted(each.result().status_code for each in responses) == [200, 200, 503]


def test_slow_searches_of_many_organizations_leave_a_thread_to_others(
    client, settings, waiting_search, ask
):
    keys = []
    with ControlDatabase(settings.control_path) as control:
        management, users = Management(control, settings.data_dir), Users(control)
        for n in range(COUNT + 1):
            users.create(f"{n}@example.org", f"{n}'s")
            caller = management.find_caller(f"{n}@example.org")
            keys.append(management.create_key(caller, "any")[1])

    def send(key):
        return client.get("/api/search?q=x", headers={"authorization": f"Bearer {key}"})

    began, is_over = waiting_search
    with ThreadPoolExecutor(len(keys) + 1) as pool:
        searching = [pool.submit(send, key) for key in keys]
        try:
            for _ in range(COUNT - 1):
                began.get()
            other = pool.submit(ask, "ann", "GET", "/proxy-endpoints")
            assert other.result(timeout=PATIENCE_S).status_code == 200
            assert began.empty()
        finally:
            is_over.set()
    assert {each.result().status_code for each in searching} == {200}


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_what_takes_too_much_memory_is_503_and_the_next_request_is_served(ann, monkeypatch, error):
    def search(*_arguments):
        raise error

    monkeypatch.setattr(search_operations, "search_file", search)
    refused = ann("GET", "/search?q=x")
    assert "short of memory" in error_of(refused, 503, "unavailable")
    assert refused.headers["retry-after"] == "3"
    assert ann("GET", "/proxy-endpoints").status_code == 200


def test_a_trace_database_that_cannot_be_read_is_503(ann, traces_path):
    traces_path.parent.mkdir(parents=True)
    traces_path.write_bytes(b"no database" * 100)
    answer = ann("GET", "/usage")
    error_of(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "1"


def test_a_method_that_a_path_has_not_is_405(ann, subtests):
    for method, path, allowed in (
        ("PUT", "/proxy-endpoints", {"GET", "HEAD", "POST"}),
        ("DELETE", "/api-keys", {"GET", "HEAD", "POST"}),
        ("POST", "/proxy-endpoints/x", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("OPTIONS", "/api-keys/x", {"DELETE"}),
        ("POST", "/usage", {"GET", "HEAD"}),
        ("POST", "/openapi.json", {"GET", "HEAD"}),
    ):
        with subtests.test(method, path=path):
            answer = ann(method, path)
            error_of(answer, 405, "method_not_allowed")
            assert set(answer.headers["allow"].split(", ")) == allowed


def test_a_path_that_is_none_is_404(ann, subtests):
    for path in ("/", "/nothing", "/proxy-endpoints/", "/api-keys/a/b", "/%00", "/a%0Ab"):
        with subtests.test(path):
            error_of(ann("GET", path), 404, "not_found")


def test_answers_are_not_to_be_kept_by_caches(ann, client):
    for answer in (ann("GET", "/api-keys"), client.get("/api/api-keys")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] == "application/json"


def test_a_crash_is_a_json_error_that_tells_nothing(settings, keys, monkeypatch):
    monkeypatch.setattr(Management, "list_keys", lambda *_: 1 / 0)
    with TestClient(make_app(settings), base_url=BASE_URL, raise_server_exceptions=False) as client:
        answer = client.get("/api/api-keys", headers={"authorization": f"Bearer {keys['ann']}"})
    assert "division" not in error_of(answer, 500, "internal_error")


def test_a_busy_writer_makes_a_write_503_in_the_end(settings, keys, monkeypatch):
    monkeypatch.setattr("store.control.database.BUSY_TIMEOUT_MS", 50)
    headers = {"authorization": f"Bearer {keys['ann']}"}
    with (
        TestClient(make_app(settings), base_url=BASE_URL, headers=headers) as client,
        closing(sqlite3.connect(settings.control_path, isolation_level=None)) as writer,
    ):
        writer.execute("begin immediate")
        assert client.get("/api/proxy-endpoints").status_code == 200
        error_of(client.post("/api/api-keys", json={"name": "x"}), 503, "unavailable")
        writer.execute("commit")
        assert client.post("/api/api-keys", json={"name": "x"}).status_code == 201


def test_the_documentation_lists_every_error_code():
    page = (ROOT / "docs" / "api.md").read_text()
    listed = set(re.findall(r"^\| \d{3} \| `(\w+)` \|", page, re.MULTILINE))
    assert listed == {*CODES.values(), "slug_taken"} - {"internal_error"}
