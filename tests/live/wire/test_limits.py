"""Limits of rate, size and memory."""

import random

from tests.live.conftest import EndpointFactory
from tests.live.service import Endpoint, body_bytes
from tests.live.wire.checks import MEBI, assert_own_error
from tests.upstream import (
    READ_BODY,
    answer,
    error_json,
)

OTHER_PATHS = ("/v1/messages/count_tokens", "/v1/models")


def test_the_message_after_the_limit_is_refused_and_makes_no_entry(
    live: Endpoint, make_endpoint: EndpointFactory
) -> None:
    """The limits of the other destinations are in tests/addon/test_rate_limits.py."""
    limit = 300
    with live.connect() as client:
        statuses = {client.exchange(live.message()).status for _ in range(limit)}
        refused = client.exchange(live.message())
        others = {client.exchange(live.message(path=path)).status for path in OTHER_PATHS}
    assert statuses == others == {200}
    assert_own_error(refused, 429, "rate_limit_error")
    assert 1 <= int(refused.header("retry-after") or "") <= 60
    assert len(live.upstream.requests) == limit + len(OTHER_PATHS)
    assert len(live.rows()) == limit
    other = make_endpoint("live")
    assert other.send(other.message()).status == 200


def test_a_message_of_32_mb_passes_and_is_logged(live: Endpoint) -> None:
    body = b'{"a":"' + random.Random(1).randbytes(16 * MEBI - 4).hex().encode() + b'"}'  # noqa: S311
    assert len(body) == 32 * MEBI
    assert live.send(live.message(body)).status == 200
    [seen] = live.upstream.requests
    assert seen.body == body
    row = live.row()
    assert row["request_bytes"] == len(body)
    assert body_bytes(row["request_body"]) == body


def test_an_upstream_that_refuses_a_large_message_before_reading_it_is_an_entry(
    endpoint: Endpoint,
) -> None:
    refusal = error_json("request_too_large", "too large")
    endpoint.upstream.enqueue(answer(413, refusal, early=True).then(READ_BODY))
    response = endpoint.send(endpoint.message(bytes(20 * MEBI)))
    assert (response.status, response.body) == (413, refusal)
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_error", 413)
