import time
from types import SimpleNamespace
from typing import Any

import pytest

from addon.dispatch import Dispatcher
from addon.errors import Refusal
from addon.replays import ReplayRules
from addon.responder import ORIGIN
from runtime.replay_tickets import HEADER, make_ticket


def stand_in(**methods: object) -> Any:
    """Return something with these methods."""
    return SimpleNamespace(**methods)


@pytest.fixture
def dispatcher(browser_rules):
    """A dispatcher whose destinations respond with their names."""
    return Dispatcher(
        browser_rules,
        ReplayRules("secret", "app.example"),
        stand_in(
            respond_live=lambda: "live",
            respond=lambda _request: "health",
            respond_with_metrics=lambda _request: "metrics",
            has_metrics=False,
        ),
        stand_in(forward=lambda _flow: "web"),
        stand_in(forward=lambda _flow, route: f"upstream {route.slug}"),
    )


@pytest.mark.parametrize(
    ("method", "path", "destination"),
    [
        ("GET", "/livez", "live"),
        ("GET", "/healthz", "health"),
        ("GET", "/settings", "web"),
        ("POST", "/proxy/a/v1/messages", "upstream a"),
        ("HEAD", "/proxy/a", "upstream a"),
    ],
)
def test_a_request_goes_to_what_its_method_and_path_name(
    dispatcher, make_flow, method, path, destination
):
    flow = make_flow(method, path)
    flow.request.authority = "elsewhere.example"
    assert dispatcher.dispatch(flow) == destination
    assert flow.request.authority == ""


@pytest.mark.parametrize(("has_metrics", "destination"), [(False, "web"), (True, "metrics")])
def test_metrics_are_those_of_the_web_process_where_there_is_one(
    dispatcher, make_flow, has_metrics, destination
):
    dispatcher._health_checks.has_metrics = has_metrics
    assert dispatcher.dispatch(make_flow("GET", "/metrics")) == destination


def test_a_path_that_is_on_no_list_is_refused(dispatcher, make_flow):
    refusal = dispatcher.dispatch(make_flow("POST", "/proxy/a/v1/../admin"))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "bad_path"


def test_our_own_page_needs_a_ticket(dispatcher, make_flow):
    path = "/proxy/a/run/replay-1/v1/messages"
    ours = [("origin", "http://localhost")]
    refusal = dispatcher.dispatch(make_flow("POST", path, ours))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "origin_refused"
    ticket = make_ticket("secret", "a", "replay-1", time.time())
    flow = make_flow("POST", path, [*ours, (HEADER, ticket)])
    assert dispatcher.dispatch(flow) == "upstream a"
    assert flow.metadata[ORIGIN] == b"http://localhost"
