"""Requests that read calls are told apart from all others by their routes."""

from dataclasses import replace
from http import HTTPMethod

import pytest
from starlette.routing import Route

from dashboard.call_route import CallRoute
from extensions.cluster.pages.front_door import reads_calls
from extensions.cluster.settings import NODE_FILE
from manage.server import make_app
from runtime.node import Node

NOT_PAGES = {"/favicon.ico", "/livez"}


@pytest.fixture
def routes(settings, control):
    return make_app(settings).routes


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/", True),
        ("HEAD", "/overview.json", True),
        ("GET", "/live/events", True),
        ("GET", "/sessions/a/b/context", True),
        ("GET", "/secrets", True),
        ("GET", "/traces/usage.json", True),
        ("POST", "/traces/usage/7/replay/check", True),
        ("POST", "/traces/usage/7/replay", False),
        ("GET", "/traces/usage/7/replay", True),
        ("GET", "/traces/usage/7/replay/ticket", False),
        ("HEAD", "/traces/usage/7/replay/ticket", False),
        ("GET", "/settings/endpoints", False),
        ("GET", "/reconciliation", False),
        ("GET", "/metrics", True),
        ("GET", "/sign-in", False),
        ("GET", "/sessionsx", False),
        ("GET", "/static/time.js", False),
        ("POST", "/", False),
        ("GET", "/api/usage", True),
        ("HEAD", "/api/calls", True),
        ("GET", "/api/runs/7", True),
        ("GET", "/api/proxy-endpoints/ci/budget", True),
        ("GET", "/api/proxy-endpoints/ci", False),
        ("GET", "/api/api-keys", False),
        ("GET", "/api/openapi.json", False),
        ("PUT", "/api/budget", False),
        ("POST", "/api/erasures", False),
    ],
)
def test_reading_calls_is_forwarded_and_nothing_else(routes, method, path, expected):
    assert reads_calls(routes, make_scope(method, path), is_dry_run=False) == expected


def test_counting_what_would_be_erased_is_forwarded_and_the_order_is_not(routes):
    assert reads_calls(routes, make_scope("POST", "/api/erasures"), is_dry_run=True)
    assert not reads_calls(routes, make_scope("PUT", "/api/budget"), is_dry_run=True)


def test_a_machine_with_calls_has_the_pages_that_read_them_and_no_others(settings, routes):
    (settings.data_dir / NODE_FILE).write_text("main")
    node = Node(parts=frozenset({"recorder"}), copy="main")
    there = make_app(replace(settings, node=node)).routes
    undeclared = {
        route.path
        for route in there
        if isinstance(route, Route) and not isinstance(route, CallRoute)
    }
    assert undeclared == NOT_PAGES, "give a page in CallPages a CallRoute"
    assert list_call_paths(there) == list_call_paths(routes)


def list_call_paths(routes):
    return [route.path for route in routes if isinstance(route, CallRoute)]


def make_scope(method, path):
    assert method in HTTPMethod.__members__
    return {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
