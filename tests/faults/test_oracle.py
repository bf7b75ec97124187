"""The checker of the programme finds each kind of fault: one that finds nothing would be worth nothing."""

from typing import Any

import pytest

from tests.faults.oracle import Attempt, Call, Seen, judge
from tests.faults.traffic import KINDS, make_plan

DOCUMENT, HELD = KINDS.index("document"), KINDS.index("held")


def _call(number: int, **changes: Any) -> Call:
    plan = make_plan(number)
    attempt = Attempt(4000 + number, 1.0, 1.1, plan.status, bytearray(plan.response), is_whole=True)
    for name, value in changes.items():
        setattr(attempt, name, value)
    return Call(number, [attempt])


def _row(number: int, **changes: Any) -> dict[str, Any]:
    plan = make_plan(number)
    return {
        "entry_id": f"entry-{number}",
        "max_tokens": number + 1,
        "outcome": "complete",
        "status_code": plan.status,
        "cost_cents": plan.cents,
        "request_body": plan.request.decode(),
        "response_body": plan.response.decode(),
        "body_notes": None,
    } | changes


def _seen(number: int, body: bytes | None = None, spoiled: bytes | None = None) -> Seen:
    return Seen(number, make_plan(number).request if body is None else body, True, spoiled)


def _judge(seen: list[Seen], calls: list[Call], rows: list[dict[str, Any]], **more: Any) -> Any:
    return judge(seen, calls, rows, lambda _call: False, **more)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gzip"])
def test_a_call_with_its_row_is_good(kind: str) -> None:
    number = 10 + KINDS.index(kind)
    found = _judge([_seen(number)], [_call(number)], [_row(number)])
    assert found.is_good
    assert len(found.times_s) == (kind != "held")


def test_what_is_lost_or_double_is_counted() -> None:
    seen, calls = [_seen(1), _seen(2)], [_call(1), _call(2)]
    assert _judge(seen, calls, [_row(2)]).lost == [1]
    assert _judge(seen, calls, [_row(1), _row(2), _row(2, entry_id="other")]).double == [2]
    unsent = {"outcome": "proxy_restarted", "status_code": None, "response_body": None}
    assert _judge([_seen(1)], [_call(1)], [_row(1), _row(1, entry_id="o", **unsent)]).double == [1]
    not_seen = _judge([], [_call(1, status=None, is_whole=False, body=b"")], [_row(1, **unsent)])
    assert (not_seen.double, not_seen.lost, not_seen.wrong) == ([], [], [])


def test_an_excused_call_may_wait_for_an_upstream_that_stops_listening_and_others_may_not() -> None:
    call = _call(DOCUMENT, status=502, body=b"", is_whole=True)
    lines = {"outcome": "upstream_interrupted", "status_code": None, "response_body": None}
    row = _row(DOCUMENT, **lines)
    assert _judge([], [call], [row]).double == [DOCUMENT]
    assert judge([], [call], [row], lambda _call: True).is_good
    assert judge([], [call], [_row(DOCUMENT)], lambda _call: True).double == [DOCUMENT]


def test_what_became_of_a_lost_double_or_disturbed_call_is_told() -> None:
    assert _judge([_seen(1)], [_call(1)], []).details == {
        1: "call 1 (document): its client heard ['200'], upstream saw 1, the rows are []"
    }
    rows = [_row(1), _row(1, entry_id="other", outcome="proxy_restarted", status_code=None)]
    assert _judge([_seen(1)], [_call(1)], rows).details == {
        1: "call 1 (document): its client heard ['200'], upstream saw 1,"
        " the rows are ['entry-1 complete 200', 'other proxy_restarted None']"
    }
    cut = _call(HELD, is_whole=False)
    assert "heard ['200 cut']" in _judge([_seen(HELD)], [cut], [_row(HELD)]).details[HELD]
    assert _judge([_seen(1)], [_call(1)], [_row(1)]).details == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"request_body": "{}"}, "its request"),
        ({"request_body": None, "body_notes": "request not kept: disk full"}, "its request"),
        ({"response_body": "{}"}, "its response is not what upstream sent"),
        ({"response_body": None}, "its response is not what upstream sent"),
        ({"cost_cents": 0.0}, "its cost"),
        ({"cost_cents": None}, "its cost"),
        ({"status_code": 500}, "its status"),
        ({"outcome": "proxy_restarted", "response_body": "no"}, "not the beginning"),
        ({"outcome": "proxy_restarted", "response_body": ""}, "heard more than is stored"),
    ],
)
def test_what_is_wrong_in_a_row_is_told(changes: dict[str, Any], said: str) -> None:
    found = _judge([_seen(DOCUMENT)], [_call(DOCUMENT)], [_row(DOCUMENT, **changes)])
    assert said in " ".join(found.wrong)


def test_bytes_may_be_missing_only_where_the_disk_may_lack_them() -> None:
    row = _row(DOCUMENT, request_body=None, response_body=None, body_notes="not kept: disk full")
    assert _judge([_seen(DOCUMENT)], [_call(DOCUMENT)], [row], may_miss_bytes=True).is_good
    silent = row | {"body_notes": None}
    assert _judge([_seen(DOCUMENT)], [_call(DOCUMENT)], [silent], may_miss_bytes=True).wrong
    torn = _row(HELD, outcome="proxy_restarted", response_body="", cost_cents=None)
    assert _judge([_seen(HELD)], [_call(HELD)], [torn], may_miss_bytes=True).wrong == []


def test_a_client_that_was_disturbed_counts_unless_the_fault_excuses_it() -> None:
    seen, rows = [_seen(HELD)], [_row(HELD)]
    cut = _call(HELD, is_whole=False, body=make_plan(HELD).response[:20])
    assert _judge(seen, [cut], rows).disturbed == [HELD]
    excused = judge(seen, [cut], rows, lambda call: call.last.port == 4000 + HELD)
    assert (excused.is_good, excused.excused) == (True, 1)


def test_other_bytes_at_the_upstream_or_the_client_are_wrong() -> None:
    assert _judge([_seen(1, b"{}")], [_call(1)], [_row(1)]).wrong
    assert _judge([_seen(1)], [_call(1, body=b"x")], [_row(1)]).wrong
    assert _judge([_seen(1), _seen(3)], [_call(1)], [_row(1)]).wrong == [
        "call 3 was made by nobody"
    ]


def test_of_a_response_that_upstream_spoiled_the_row_has_the_beginning() -> None:
    half = make_plan(1).response[:100]
    call = _call(1, is_whole=False, body=half)
    row = _row(1, outcome="upstream_interrupted", cost_cents=1.0, response_body=half.decode())
    assert _judge([_seen(1, spoiled=half)], [call], [row]).is_good
    row["response_body"] = half.decode() + "more"
    assert _judge([_seen(1, spoiled=half)], [call], [row]).wrong


def test_calls_that_the_service_counts_as_not_kept_are_not_lost_and_no_more() -> None:
    for counted, lost in ((1, []), (2, []), (0, [1])):
        found = _judge([_seen(1)], [_call(1)], [])
        found.note_not_kept(counted)
        assert found.lost == lost
        assert list(found.details) == lost
