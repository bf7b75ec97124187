"""The first lines of the page of a call that failed: what happened, what to do, and when again."""

import json

import pytest

from metering.rate_limits import RateLimits
from tests.dashboard.pages import words_of

FAILED = {
    "outcome": "upstream_error",
    "usage_source": "none",
    "cost_cents": 0,
    "cost_items": (),
    "created_at": "2026-03-01T10:00:00.000Z",
    "duration_ms": 1_500.0,
}


def make_error(kind, message):
    error = {"type": kind, "message": message}
    return json.dumps({"type": "error", "error": error}).encode()


def read(person, **changes):
    """The page of a call that failed: what stands before its figures, and the rest, as words."""
    call_id = person.record(**(FAILED | changes))
    page = person.get(f"/calls/{call_id}").text
    head, _, rest = page.partition("<main")[2].partition('<nav class="tabs"')
    return words_of(head), words_of(rest)


def test_an_error_stands_on_the_page_once_with_what_to_do_and_when_to_try_again(ann):
    head, rest = read(
        ann,
        status_code=429,
        error_type="rate_limit_error",
        response_body=make_error("rate_limit_error", "Slow down, Ann."),
        rate_limits=RateLimits(retry_after_s=20.0),
    )
    assert "429 rate_limit_error: try again in 20 s “ Slow down, Ann. ” A limit of" in head
    assert "Not billed." in head
    assert "a pause of 20 s (retry-after): try again from 2026-03-01 10:00:21 UTC on." in head
    assert "Slow down" not in rest
    assert "An error, as said above." in rest


def test_a_long_message_stands_with_the_response(ann):
    message = "No. " * 400
    head, rest = read(
        ann, status_code=400, response_body=make_error("invalid_request_error", message)
    )
    assert "400 invalid_request_error The same request will fail again" in head
    assert "No. No." not in head
    assert rest.count(message.strip()) == 1


@pytest.mark.parametrize("wait_s", [None, -1.0, 0.0, 1e300])
def test_without_a_time_to_wait_for_none_is_said(ann, wait_s):
    limits = None if wait_s is None else RateLimits(retry_after_s=wait_s)
    head, _ = read(
        ann, status_code=529, response_body=make_error("overloaded_error", "x"), rate_limits=limits
    )
    assert "The upstream is overloaded." in head
    assert "retry-after" not in head


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("upstream_unreachable", "could not be connected to"),
        ("upstream_timeout", "longer than TAXIMETER_UPSTREAM_TIMEOUT allows"),
        ("upstream_interrupted", "before the response was whole"),
        ("proxy_restarted", "was restarted while this call"),
        ("upstream_error", "responded with status 502. The fault is the upstream's."),
    ],
)
def test_a_failure_without_an_error_of_the_upstream_is_said_too(ann, outcome, words):
    head, _ = read(ann, outcome=outcome, status_code=502 if outcome == "upstream_error" else None)
    assert words in head


@pytest.mark.parametrize("outcome", ["complete", "client_disconnected"])
def test_what_is_no_failure_begins_as_ever(ann, outcome):
    call_id = ann.record(outcome=outcome)
    assert 'class="problem' not in ann.get(f"/calls/{call_id}").text


def test_an_error_within_a_stream_stands_once_above_what_was_delivered(ann):
    events = (
        {"type": "message_start", "message": {"model": "m", "content": []}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "Hm"},
        },
        {"type": "error", "error": {"type": "overloaded_error", "message": "Too many."}},
    )
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    head, rest = read(
        ann, status_code=200, error_type="overloaded_error", response_body=body.encode()
    )
    assert "overloaded_error: Too many. The upstream is overloaded." in head
    assert "Too many." not in rest
    assert "Hm" in rest


@pytest.mark.parametrize(
    ("limited_by", "words", "fact"),
    [
        ("throttle", "a short throttle, and says nothing of what is left", "a short throttle"),
        ("window", "A window of the subscription is used up", "a window of the subscription"),
        ("minute", "A limit of the credential or of its organization", "a limit of a minute"),
    ],
)
def test_a_short_throttle_is_told_from_a_window_that_is_used_up(ann, limited_by, words, fact):
    head, _ = read(ann, status_code=429, limited_by=limited_by)
    assert words in head
    details = words_of(ann.get("/calls/1/details").text)
    assert f"Refused for {fact}" in details
