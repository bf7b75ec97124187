import base64

import pytest

from runtime.http_proxies import UserProxies, covers, parse_http_proxy


@pytest.mark.parametrize(
    ("text", "shown", "authorization"),
    [
        ("http://proxy.example:3128", "http://proxy.example:3128", None),
        ("proxy.example:3128", "http://proxy.example:3128", None),
        ("https://proxy.example/", "https://proxy.example:443", None),
        ("http://[::1]:8080", "http://[::1]:8080", None),
        ("http://ana:p%40ss%3A@proxy.example", "http://proxy.example:80", b"ana:p@ss:"),
        ("http://ana@proxy.example", "http://proxy.example:80", b"ana:"),
    ],
)
def test_a_proxy_is_an_address_perhaps_with_a_password(text, shown, authorization):
    proxy = parse_http_proxy(text)
    assert proxy is not None
    assert str(proxy) == shown
    expected = authorization and b"Basic " + base64.b64encode(authorization)
    assert proxy.authorization == expected
    assert "p@ss" not in repr(proxy)


def test_no_text_is_no_proxy():
    assert parse_http_proxy("") is None


@pytest.mark.parametrize(
    "text", ["socks5://p:1", "http://p:port", "http://", "http://p/path", "http://u:hunter2@p?q"]
)
def test_what_is_no_http_proxy_is_refused_without_quoting_it(text):
    with pytest.raises(ValueError, match=r"write http|not a number") as error:
        parse_http_proxy(text)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_covered"),
    [
        ("*", "api.anthropic.com", 443, True),
        ("anthropic.com", "api.anthropic.com", 443, True),
        (".anthropic.com", "api.anthropic.com", 443, True),
        ("*.anthropic.com", "API.Anthropic.com", 443, True),
        ("api.anthropic.com:443", "api.anthropic.com", 443, True),
        ("api.anthropic.com:8443", "api.anthropic.com", 443, False),
        ("thropic.com", "api.anthropic.com", 443, False),
        ("api.anthropic.com", "anthropic.com", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.1.2.3", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "api.anthropic.com", 443, False),
        ("::1", "::1", 443, True),
        ("[::1]:443", "::1", 443, True),
        ("", "api.anthropic.com", 443, False),
        (".", "api.anthropic.com", 443, False),
    ],
)
def test_an_entry_is_about_a_host_and_what_is_below_it(entry, host, port, is_covered):
    assert covers(entry, host, port) is is_covered


def test_the_variable_in_small_letters_wins():
    environ = {
        "HTTPS_PROXY": "http://large:1",
        "https_proxy": "http://small:2",
        "NO_PROXY": "never.example",
        "no_proxy": "intern.example, 10.0.0.0/8,",
    }
    proxies = UserProxies.of(environ)
    assert proxies.exempt == ("intern.example", "10.0.0.0/8")
    assert str(proxies.find("api.example", 443)) == "http://small:2"
    assert str(proxies.find("never.example", 443)) == "http://small:2"
    for host in ("git.intern.example", "10.9.9.9", "localhost", "127.0.0.1", "::1"):
        assert proxies.find(host, 443) is None


def test_without_one_for_https_that_for_all_hosts_is_used():
    assert (
        str(UserProxies.of({"ALL_PROXY": "http://all:3"}).find("x.example", 443)) == "http://all:3"
    )
    assert UserProxies.of({"HTTP_PROXY": "http://plain:4"}).find("x.example", 443) is None
    with pytest.raises(ValueError, match="write http"):
        UserProxies.of({"all_proxy": "socks5h://s:1080"}).find("x.example", 443)
