"""The lines of a list of calls, and the groups of them."""

from datetime import UTC, datetime

import pytest

from dashboard.calls.lines import describe_failure, group_lines, make_lines, split_time
from metering.token_counts import NAMES
from store.traces.calls.listed_calls import ListedSession
from store.traces.calls.tool_uses import StoredUse

NOW = datetime(2026, 11, 23, 15, 20, tzinfo=UTC)
ROW = {
    "id": 1,
    "created_at": "2026-11-23T15:19:33.000Z",
    "slug": "default",
    "model": "claude-opus-4-5-20251101",
    "request_model": None,
    "outcome": "complete",
    "status_code": 200,
    "error_type": None,
    "stop_reason": "end_turn",
    "usage_source": "final",
    "title_text": None,
    "said_text": None,
    "agent_id": None,
    "retry_count": None,
    "credential_hmac": None,
    "upstream_request_id": None,
    "tags": None,
    "duration_ms": 900.0,
    "ttfb_ms": None,
    "cost_cents": 0.2,
    "session": None,
    **dict.fromkeys(NAMES),
}


def row(number=1, **changes):
    return ROW | {"id": number} | changes


def lines_of(*rows, uses=None):
    return make_lines(rows, uses or {}, NOW)


def test_call_is_told_by_its_tools_and_else_by_its_words():
    uses = {1: [StoredUse(tool="Bash", target="pytest", problem="exit 1")]}
    used, said = lines_of(row(), row(2, said_text="Yes."), uses=uses)
    assert used.deed is not None
    assert (used.deed.verb, used.deed.object, used.deed.problem) == ("Bash", "pytest", "exit 1")
    assert said.deed is not None
    assert (said.deed.verb, said.deed.says, said.asked) == ("Answer", "Yes.", "")


def test_failed_call_says_why_and_what_was_asked():
    failed = {"outcome": "upstream_error", "status_code": 529, "error_type": "overloaded_error"}
    (line,) = lines_of(row(**failed, title_text="Ticket 31", cost_cents=0, retry_count=2))
    assert (line.failure, line.deed, line.asked) == (
        "529 overloaded_error, retry 2",
        None,
        "Ticket 31",
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        (
            {"outcome": "upstream_interrupted", "error_type": "upstream_interrupted"},
            "interrupted",
        ),
        ({"outcome": "client_disconnected"}, ""),
        ({"outcome": "upstream_unreachable", "status_code": None}, "unreachable"),
        ({"outcome": "upstream_error", "error_type": "api_error", "status_code": 200}, "api_error"),
        ({"outcome": "upstream_error", "status_code": 404}, "404 error"),
    ],
)
def test_reason_of_a_failure_is_status_and_type(fields, words):
    assert describe_failure(row(**fields)) == words


def test_neighbours_that_say_the_same_are_told_apart_by_what_was_asked():
    rows = [row(n, said_text="yes", title_text=f"Is {n} odd?") for n in (1, 2)]
    first, second, third, fourth = lines_of(*rows, row(3, said_text="no"), row(4, said_text="yes"))
    assert (first.asked, second.asked) == ("Is 1 odd?", "Is 2 odd?")
    assert (third.asked, fourth.asked) == ("", "")


def test_cut_or_refused_call_says_so():
    cut = {"outcome": "client_disconnected", "usage_source": "estimated", "said_text": "Well"}
    one, other = lines_of(row(**cut), row(2, stop_reason="refusal"))
    assert one.cut == "cut by the client, output estimated"
    assert other.cut == "refused"


@pytest.mark.parametrize(
    ("instant", "parts"),
    [
        ("2026-11-23T15:19:33Z", ("", "15:19:33")),
        ("2026-11-19T04:05:06Z", ("Thu 19", "04:05")),
        ("2026-10-01T04:05:06Z", ("2026-10-01", "04:05")),
    ],
)
def test_time_is_as_short_as_its_age_permits(instant, parts):
    assert split_time(datetime.fromisoformat(instant), NOW) == parts


def test_calls_are_grouped_by_session_and_agent_and_others_by_credential():
    lines = lines_of(
        row(1, session="s"),
        row(2, session="s", agent_id="a", title_text="Look for it"),
        row(3, credential_hmac="c1"),
        row(4, session="s"),
        row(5, credential_hmac="c2"),
    )
    groups = group_lines(lines, {"s": ListedSession("Mend it", 9, 42.0)})
    assert [(each.title, [line.row["id"] for line in each.lines]) for each in groups] == [
        ("Mend it", [1, 4]),
        ("Look for it", [2]),
        ("No session", [3]),
        ("No session", [5]),
    ]
    assert [(each.calls, each.cents, each.address) for each in groups[:3]] == [
        (9, 42.0, "/sessions/s"),
        (None, 0.2, "/sessions/s"),
        (None, 0.2, ""),
    ]
