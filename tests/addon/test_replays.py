"""The requests that are taken for those of the page that sends calls again."""

import pytest

from addon.headers import RequestFilter
from addon.replays import ReplayRules
from runtime.replay_tickets import HEADER, make_ticket

NOW_S = 1_800_000_000.0
TARGET = "/proxy/team-a/run/replay-1/v1/messages"
RULES = ReplayRules("secret", "meter.example.org", lambda: NOW_S)
TICKET = make_ticket("secret", "team-a", "replay-1", NOW_S)
PAGE = {
    "Host": "meter.example.org",
    "Origin": "https://meter.example.org",
    "Sec-Fetch-Site": "same-origin",
    HEADER: TICKET,
}


def judge(method="POST", target=TARGET, more=(), **changes):
    given = [*(PAGE | changes).items(), *more]
    pairs = ((name.encode(), value.encode()) for name, value in given if value is not None)
    return RULES.find_origin(method, target, tuple(pairs))


@pytest.mark.parametrize("query", ["", "?beta=true"])
def test_our_page_with_a_ticket_is_let_through(query):
    assert judge(target=TARGET + query) == b"https://meter.example.org"


@pytest.mark.parametrize("site", ["same-origin", None])
def test_our_page_may_be_open_by_any_name_of_ours(site):
    by_loopback = {"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:8080"}
    assert judge(**by_loopback, **{"Sec-Fetch-Site": site}) == b"http://127.0.0.1:8080"


@pytest.mark.parametrize(
    "changes",
    [
        {HEADER: None},
        {HEADER: "1.2"},
        {HEADER: make_ticket("secret", "team-a", "replay-1", NOW_S - 61)},
        {HEADER: make_ticket("secret", "team-b", "replay-1", NOW_S)},
        {HEADER: make_ticket("secret", "team-a", "replay-2", NOW_S)},
        {HEADER: make_ticket("guess", "team-a", "replay-1", NOW_S)},
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "https://meter.example.org.evil.example"},
        {"Origin": "https://meter.example.org:8443"},
        {"Host": "evil.example", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
        {"method": "GET"},
        {"method": "OPTIONS"},
        {"target": "/proxy/team-a/v1/messages"},
        {"target": "/proxy/team-a/run/replay-1/v1/messages/count_tokens"},
        {"target": "/proxy/team-a/run/replay-1/v1/files"},
        {"target": "/proxy/team-a/run/replay-1/v1/../v1/messages"},
        {"target": "/proxy/team-b/run/replay-1/v1/messages"},
        {"target": "/proxy/team-a/run/replay-1/v1/messages#x"},
        {"more": [(HEADER, TICKET)]},
        {"more": [("Origin", "https://meter.example.org")]},
        {"more": [("Sec-Fetch-Site", "cross-site")]},
    ],
)
def test_everything_else_is_judged_as_the_request_of_any_page(changes):
    assert judge(**changes) is None


def test_a_ticket_is_never_forwarded():
    forwarded = RequestFilter("anthropic", ["x-"])(((HEADER.encode(), b"t"), (b"x-app", b"cli")))
    assert forwarded == ((b"x-app", b"cli"),)
