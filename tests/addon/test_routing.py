import pytest

from addon import routing
from addon.destination import Destination
from addon.errors import Refusal
from addon.routing import Route, find_route


def message(target, slug="a", run_id=None):
    """The route of a message request."""
    return Route(Destination.MESSAGES, slug, target, run_id, is_billed=True, record="messages")


def other(target, run_id=None):
    return Route(Destination.OTHER, "a", target, run_id)


@pytest.mark.parametrize(
    ("method", "target", "route"),
    [
        ("POST", "/proxy/a/v1/messages", message("/v1/messages")),
        ("POST", "/proxy/a/v1/messages?beta=true", message("/v1/messages?beta=true")),
        ("POST", "/proxy/a/v1/messages?", message("/v1/messages?")),
        ("POST", "/proxy/a-1//v1/messages", message("/v1/messages", slug="a-1")),
        (
            "POST",
            "/proxy/a/v1/messages/count_tokens",
            Route(Destination.COUNT_TOKENS, "a", "/v1/messages/count_tokens"),
        ),
        ("GET", "/proxy/a/v1/messages", other("/v1/messages")),
        ("GET", "/proxy/a/v1/models", other("/v1/models")),
        ("GET", "/proxy/a/v1/models/claude%20x?limit=1", other("/v1/models/claude%20x?limit=1")),
        ("DELETE", "/proxy/a/v1/files/file_1", other("/v1/files/file_1")),
        ("POST", "/proxy/a/run/b-4/v1/messages?x", message("/v1/messages?x", run_id="b-4")),
        ("GET", "/proxy/a/run/1//v1/models", other("/v1/models", run_id="1")),
        ("HEAD", "/proxy/a/run/build-42", Route(Destination.PROBE, "a")),
        ("HEAD", "/proxy/a", Route(Destination.PROBE, "a")),
        ("HEAD", "/proxy/a/", Route(Destination.PROBE, "a")),
        ("GET", "/livez", Route(Destination.LIVE)),
        ("GET", "/healthz", Route(Destination.HEALTH)),
        ("HEAD", "/healthz?x", Route(Destination.HEALTH)),
        ("GET", "/", Route(Destination.WEB)),
        ("GET", "/proxyfoo/a/v1/messages", Route(Destination.WEB)),
        ("POST", "//proxy/a/v1/messages", Route(Destination.WEB)),
        ("POST", "/x/../proxy/a/v1/messages", Route(Destination.WEB)),
        ("OPTIONS", "*", Route(Destination.WEB)),
    ],
)
def test_requests_go_where_they_belong(method, target, route):
    assert find_route(method, target) == route


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("POST", "/v1/messages", 404),
        ("POST", "/proxy/a/v1/messages/", 404),
        ("POST", "/proxy/a/run/v1/messages", 404),
        ("POST", "/proxy/a/run//v1/messages", 404),
        ("POST", "/proxy/a/run/-x/v1/messages", 404),
        ("POST", "/proxy/a/run/a%2fb/v1/messages", 400),
        ("POST", "/proxy/a/run/../v1/messages", 400),
        ("POST", "/proxy/a/run/x/run/y/v1/messages", 404),
        ("POST", f"/proxy/a/run/{'x' * 65}/v1/messages", 404),
        ("HEAD", "/proxy/A_B/run/x", 404),
        ("POST", "/proxy/a/v1", 404),
        ("POST", "/proxy/a/v1/", 404),
        ("POST", "/proxy/a/v2/messages", 404),
        ("POST", "/proxy/a/api/hello", 404),
        ("POST", "/proxy/a", 404),
        ("GET", "/proxy/a", 404),
        ("POST", "/proxy/A/v1/messages", 404),
        ("POST", "/proxy/a--b/v1/messages", 404),
        ("POST", "/proxy/-a/v1/messages", 404),
        ("POST", f"/proxy/{'a' * 64}/v1/messages", 404),
        ("POST", "/proxy//v1/messages", 404),
        ("HEAD", "/proxy/A_B", 404),
        ("POST", "/proxy/a///v1/messages", 404),
        ("POST", "/proxy/a/v1/messages#x", 400),
        ("POST", "/proxy/a/run/1/v1/Messages", 400),
        ("POST", "/proxy/a//v1/messages;a=b?beta=true", 400),
        ("POST", "/proxy/a/v1/messages?x=1#y", 400),
        ("POST", "/proxy/a/v1/mess\udcffages", 404),
        ("POST", "/proxy/a/v1/messages?q=\udcff", 400),
        ("POST", "/proxy/a/v1/messages?a b", 400),
        ("TRACE", "/proxy/a/v1/messages", 405),
        ("OPTIONS", "/proxy/a/v1/messages", 405),
        ("POST", "/healthz", 405),
        ("PUT", "/livez", 405),
    ],
)
def test_what_an_upstream_might_read_differently_is_refused(method, target, status):
    refusal = find_route(method, target)
    assert isinstance(refusal, Refusal)
    assert refusal.status == status


def test_few_routes_are_remembered_and_none_of_a_long_target():
    for number in range(routing.MOST_ROUTES + 10):
        find_route("POST", f"/proxy/a/v1/{number}")
    known = routing._recall.cache_info()
    assert known.currsize == known.maxsize == routing.MOST_ROUTES
    path = "/v1/" + "x" * routing.MOST_REMEMBERED_CHARS
    assert find_route("GET", f"/proxy/a{path}") == Route(Destination.OTHER, "a", path)
    assert routing._recall.cache_info() == known
