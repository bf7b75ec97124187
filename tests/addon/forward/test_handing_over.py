import pytest

from addon.forward.handing_over import find_path, parse_service
from runtime.setting_values import parse_upstream

SERVICE = parse_service("http://127.0.0.1:8080/proxy/team/run/abc")
UPSTREAM = parse_upstream("https://api.anthropic.com")


def find(method, target, upstream=UPSTREAM):
    return find_path(method, target, upstream, SERVICE)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/messages"),
        ("POST", "/v1/messages?beta=true"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/messages/batches/msgbatch_1/results"),
        ("GET", "/v1/sessions/session_1"),
    ],
)
def test_what_becomes_an_entry_is_handed_over(method, target):
    assert find(method, target) == f"/proxy/team/run/abc{target}"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/"),
        ("HEAD", "/"),
        ("GET", "/v1/messages"),
        ("POST", "/v1/messages/count_tokens"),
        ("GET", "/v1/models"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/files"),
        ("POST", "/v1/oauth/token"),
        ("GET", "/v1/code/sessions/x/events"),
        ("GET", "/api/claude_code/settings"),
        ("POST", "/api/event_logging/v2/batch"),
        ("POST", "/v1/messages/"),
        ("POST", "//v1/messages"),
        ("POST", "/v1/%6Dessages"),
        ("POST", "/v1/messages#x"),
        ("OPTIONS", "*"),
    ],
)
def test_all_the_rest_passes(method, target):
    assert find(method, target) is None


def test_below_a_prefix_of_the_upstream_paths_are_the_same():
    upstream = parse_upstream("https://gateway.example/anthropic")
    assert find("POST", "/anthropic/v1/messages?beta=true", upstream) == (
        "/proxy/team/run/abc/v1/messages?beta=true"
    )
    assert find("POST", "/v1/messages", upstream) is None
    assert find("POST", "/anthropicx/v1/messages", upstream) is None


@pytest.mark.parametrize(
    ("url", "port", "origin"),
    [
        ("http://127.0.0.1:8080/proxy/x/run/y", 8080, "http://127.0.0.1:8080"),
        ("https://meter.example.org/proxy/x/run/y", 443, "https://meter.example.org:443"),
        ("http://[::1]/proxy/x/run/y", 80, "http://[::1]:80"),
    ],
)
def test_a_service_is_here_or_elsewhere(url, port, origin):
    service = parse_service(url)
    assert (service.port, service.path, service.origin) == (port, "/proxy/x/run/y", origin)


def test_what_is_no_base_url_is_refused():
    with pytest.raises(ValueError, match="base URL"):
        parse_service("meter.example.org")
