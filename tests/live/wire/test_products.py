"""Calls that are not messages and yet cost: chat completions, results of batches, managed sessions."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.live.conftest import EndpointFactory
from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.metering.test_batch_results import MESSAGE, write
from tests.metering.test_chat_completions import DOCUMENT, END, LAST, PARTS
from tests.metering.test_object_reading import SESSION, make_event
from tests.rawclient import Response, request
from tests.upstream import SSE_HEADERS, answer, chunked

CHAT = b'{"model":"claude-opus-5","messages":[{"role":"user","content":"Hi"}]}'


def send(endpoint: Endpoint, method: str, path: str, body: bytes = b""):
    return endpoint.send(request(method, endpoint.target(path), REQUEST_HEADERS, body))


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_chat_completion_is_an_entry(live: Endpoint, is_streamed: bool) -> None:
    whole = [*PARTS, LAST, END] if is_streamed else [json.dumps(DOCUMENT).encode()]
    live.upstream.enqueue(
        chunked(200, whole, SSE_HEADERS) if is_streamed else answer(200, whole[0])
    )
    response = send(live, "POST", "/v1/chat/completions", CHAT)
    assert response.body == b"".join(whole)
    assert live.upstream.requests[-1].body == CHAT
    row = live.row()
    assert (row["product"], row["streamed"]) == ("chat_completions", is_streamed)
    assert (row["input_tokens"], row["output_tokens"]) == (12, 3)
    assert float(row["cost_cents"]) == pytest.approx((12 * 5 + 3 * 25) / 10_000)
    assert (row["request_body"], row["title_text"]) == (CHAT.decode(), "Hi")


def test_results_of_a_batch_pass_unchanged_and_are_entries(live: Endpoint) -> None:
    lines = [write({"type": "succeeded", "message": MESSAGE}, name) for name in ("a", "b")]
    path = "/v1/messages/batches/msgbatch_1/results"
    for _ in range(2):
        live.upstream.enqueue(answer(200, b"\n".join(lines)))
        assert send(live, "GET", path).body == b"\n".join(lines)
    rows = live.rows()
    assert [row["entry_id"] for row in rows] == ["msgbatch_1:a", "msgbatch_1:b"]
    assert {row["product"] for row in rows} == {"batch"}


def test_what_a_managed_session_used_is_kept_and_no_call(make_endpoint: EndpointFactory) -> None:
    endpoint = make_endpoint("live")
    body = json.dumps(SESSION).encode()
    event = b"data: %b\n\n" % json.dumps(make_event("2126-11-20T10:00:00Z", 1800)).encode()
    endpoint.upstream.enqueue(
        answer(404, b"{}"), answer(200, body), chunked(200, [event], SSE_HEADERS)
    )
    assert send(endpoint, "GET", "/v1/sessions/sesn_1").status == 404
    assert send(endpoint, "GET", "/v1/sessions/sesn_1").body == body
    assert send(endpoint, "GET", "/v1/sessions/sesn_1/events/stream").body == event
    assert endpoint.rows() == []
    (path,) = endpoint.service.data_dir.glob("traces/*/traces.db")
    with closing(sqlite3.connect(path)) as db:
        sql = (
            "select object_id, model, active_seconds, round(cost_cents, 6) from upstream_objects"
            " where slug = ?"
        )
        found = db.execute(sql, (endpoint.slug,)).fetchall()
    assert found == [("sesn_1", "claude-opus-5", 1800, 192)]


def test_a_used_up_budget_refuses_chat_completions_in_the_shape_of_their_clients(
    make_endpoint: EndpointFactory,
) -> None:
    endpoint = make_endpoint("live")
    endpoint.upstream.enqueue(answer(200, json.dumps(DOCUMENT).encode()))
    assert send(endpoint, "POST", "/v1/chat/completions", CHAT).status == 200
    assert endpoint.rows()
    endpoint.service.set_budget(endpoint.slug, limit_usd=0.00001)
    responses: list[Response] = []

    def is_refused() -> bool:
        endpoint.upstream.enqueue(answer(200, b"{}"))
        responses.append(send(endpoint, "POST", "/v1/chat/completions", CHAT))
        return responses[-1].status == 429

    endpoint.service.wait_until(is_refused, "a refusal of chat completions")
    refused = responses[-1]
    assert refused.header("x-should-retry") == "false"
    error = json.loads(refused.body)["error"]  # `body["error"]` is all that they look at
    assert error["type"] == "billing_error"
    assert "The budget of this proxy endpoint for the day is used up." in error["message"]
