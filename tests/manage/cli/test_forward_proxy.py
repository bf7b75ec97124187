import pytest

from manage.claude_code.variables import Sources
from manage.cli.forward_proxy import find_obstacles, find_route, make_variables
from runtime.errors import StartError

RUN = "http://127.0.0.1:8080/proxy/x/run/y"
ROUTE = find_route("https://api.anthropic.com", RUN, "x")


def test_a_client_gets_the_proxy_by_each_name_that_clients_know():
    variables = make_variables({}, ROUTE, "http://run:x@127.0.0.1:4711", "/tmp/bundle.pem")  # noqa: S108
    assert variables["HTTPS_PROXY"] == variables["https_proxy"] == "http://run:x@127.0.0.1:4711"
    assert variables["NO_PROXY"] == variables["no_proxy"] == "localhost,127.0.0.1,::1"
    assert variables["NODE_USE_ENV_PROXY"] == "1"
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"):
        assert variables[name] == "/tmp/bundle.pem"  # noqa: S108
    assert "GIT_SSL_CAINFO" not in variables, "git never calls the upstream"
    assert "HTTP_PROXY" not in variables
    assert "ANTHROPIC_BASE_URL" not in variables


def test_what_the_user_exempts_stays_exempt_but_the_upstream():
    environ = {"NO_PROXY": "intern.example,.anthropic.com, localhost,10.0.0.0/8"}
    exempt = make_variables(environ, ROUTE, "a", "b")["NO_PROXY"]
    assert exempt == "intern.example,localhost,10.0.0.0/8,127.0.0.1,::1"
    assert (
        make_variables({"no_proxy": "*"}, ROUTE, "a", "b")["no_proxy"] == "localhost,127.0.0.1,::1"
    )


def test_the_host_that_is_opened_is_that_of_the_upstream():
    assert (ROUTE.host, ROUTE.port, ROUTE.service_url) == ("api.anthropic.com", 443, RUN)
    other = find_route("https://gw.example:8443/a", RUN, "x")
    assert (other.host, other.port, other.upstream_url) == (
        *("gw.example", 8443),
        "https://gw.example:8443/a",
    )
    with pytest.raises(StartError, match="https"):
        find_route("http://127.0.0.1:8000", RUN, "x")
    with pytest.raises(StartError, match="TAXIMETER_UPSTREAMS"):
        find_route(None, RUN, "x")


def obstacles(**environ):
    return list(find_obstacles(Sources.make(environ, []), ROUTE))


@pytest.mark.parametrize(
    "base_url", ["", "https://api.anthropic.com", "https://api.anthropic.com/v1"]
)
def test_a_base_url_of_the_upstream_is_in_nobodys_way(base_url):
    assert obstacles(ANTHROPIC_BASE_URL=base_url) == []


def test_another_base_url_is_named_without_its_password():
    (warning,) = obstacles(ANTHROPIC_BASE_URL="https://u:hunter2@gw.example")
    assert "the environment sets ANTHROPIC_BASE_URL" in warning
    assert "gw.example" in warning
    assert "hunter2" not in warning


def test_another_provider_is_named():
    (warning,) = obstacles(CLAUDE_CODE_USE_BEDROCK="1")
    assert "CLAUDE_CODE_USE_BEDROCK" in warning
