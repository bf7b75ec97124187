"""Credentials on the wire: forwarded or withheld, and stored nowhere."""

import pytest

from store.control import api_keys
from store.control.database import ControlDatabase
from tests.live.service import API_KEY, REQUEST_HEADERS, Endpoint, Service
from tests.live.wire.checks import BEARER, EVENTS, JSON, files_with, is_cut
from tests.rawclient import request
from tests.upstream import CLOSE, RESET, Script, answer, cut_sse, error_json, sse


def test_no_credential_is_kept_or_printed_anywhere(endpoint: Endpoint) -> None:
    cookie = "session-of-nobody-else-314159"
    headers = [
        *REQUEST_HEADERS,
        ("Authorization", f"Bearer {BEARER}"),
        ("Cookie", f"a={cookie}"),
        ("Proxy-Authorization", f"Basic {cookie}"),
        ("X-Claude-Code-Session-Id", BEARER),
        ("Anthropic-Beta", BEARER),
    ]
    endpoint.upstream.enqueue(
        sse(EVENTS, [("set-cookie", f"a={cookie}"), ("content-type", "text/event-stream")]),
        answer(401, error_json("authentication_error", "invalid x-api-key"), JSON),
        Script((b"garbage", CLOSE)),
        cut_sse(EVENTS[:2], RESET),
        answer(200, b'{"input_tokens":1}'),
    )
    for _ in range(3):
        endpoint.send(endpoint.message(b"{}", headers))
    is_cut(endpoint)
    endpoint.send(endpoint.message(b"{}", headers, path="/v1/messages/count_tokens"))
    endpoint.send(endpoint.message(b"{}", headers, path="/v1/../messages"))
    endpoint.send(request("POST", "/proxy/nobody/v1/messages", headers, b"{}"))
    endpoint.send(request("GET", "/", [("x-api-key", API_KEY), ("Host", endpoint.service.host)]))
    rows = endpoint.rows()
    assert len(rows) == 4
    assert all(row["credential_hmac"] for row in rows)
    secrets = (API_KEY, BEARER, cookie)
    assert files_with(endpoint.service, *(secret.encode() for secret in secrets)) == []
    assert not [secret for secret in secrets if secret in endpoint.service.output]


def _make_service_key(service: Service) -> str:
    with ControlDatabase(service.data_dir / "control.db") as control:
        organization_id = control.get_local_organization().id
        user_id = control.find_user(None)
        assert user_id
        with control.transaction() as db:
            return api_keys.create(db, organization_id, user_id, "Misplaced")[1]


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("?api_key={}", "x-app", "cli"),
        ("", "User-Agent", "tool/1 {}"),
        ("", "anthropic-beta", "{}"),
        ("", "Idempotency-Key", "x{}x"),
    ],
)
def test_a_service_api_key_anywhere_in_a_head_is_neither_forwarded_nor_stored(
    live: Endpoint, query: str, name: str, value: str
) -> None:
    key = _make_service_key(live.service)
    headers = [*REQUEST_HEADERS, (name, value.format(key))]
    path = "/v1/messages" + query.format(key)
    response = live.send(live.message(b"{}", headers, path=path))
    assert (response.status, response.header("x-taximeter-error")) == (401, "service_key")
    assert live.upstream.requests == []
    assert live.rows() == []
    assert files_with(live.service, key.encode()) == []


def test_the_upstream_never_sees_the_run_that_a_call_belongs_to(live: Endpoint) -> None:
    message = live.message(path="/run/build-42/v1/messages?beta=true")
    assert live.send(message).status == 200
    assert live.send(request("HEAD", live.target("/run/build-42"))).status == 200
    (seen,) = live.upstream.requests
    assert seen.target == "/v1/messages?beta=true"
    assert b"build-42" not in seen.head
    row = live.row()
    assert (row["run_id"], row["path_query"]) == ("build-42", "/v1/messages?beta=true")
