import pytest

from addon import browsers, headers
from addon.browsers import BrowserRules
from addon.errors import Refusal

APP = b"https://app.example.org"
RULES = BrowserRules(["https://app.example.org"], "anthropic", "meter.example.org")
FIREFOX = (b"User-Agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")


LANGUAGE = (b"Accept-Language", b"en-GB,en;q=0.5")


def code_of(*fields):
    verdict = RULES.judge("GET", headers.index(fields))
    assert isinstance(verdict, Refusal)
    assert verdict.status == 403
    return verdict.code


@pytest.mark.parametrize(
    "fields",
    [
        (),
        ((b"Accept", b"application/json"), (b"User-Agent", b"Anthropic/Python 2.11.0")),
        ((b"Accept", b"*/*"), (b"sec-fetch-mode", b"cors"), (b"user-agent", b"node")),
        ((b"Sec-Fetch-Site", b"none"), (b"Sec-Fetch-Mode", b"cors")),
        ((b"host", b"any.reverse.proxy"), (b"user-agent", b"curl/8.5.0")),
        ((b"host", b"localhost:8080"), FIREFOX),
        ((b"host", b"[::1]:8080"), FIREFOX),
        ((b"host", b"192.168.1.5:8080"), FIREFOX),
        ((b"host", b"METER.example.org"), FIREFOX),
        ((b"host", b"192.168.1.5:8080"), (b"referer", b"http://192.168.1.5:8080/docs?a=//b")),
        ((b"host", b"192.168.1.5:8080"), (b"user-agent", b"node"), (b"accept-language", b"*")),
        ((b"host", b"localhost"), (b"sec-fetch-site", b"none"), FIREFOX, LANGUAGE),
    ],
)
def test_a_program_is_let_through(fields):
    assert RULES.judge("GET", headers.index(fields)) is None


def test_a_page_of_a_listed_origin_is_let_through():
    found = {b"origin": APP, b"sec-fetch-site": b"cross-site"}
    assert RULES.judge("POST", found) == RULES.judge("OPTIONS", found) == APP


@pytest.mark.parametrize(
    "fields",
    [
        ((b"Origin", b"https://evil.example"),),
        ((b"Origin", b"null"),),
        ((b"Origin", b""),),
        ((b"Origin", APP + b":8443"),),
        ((b"Origin", b"http://app.example.org"),),
        ((b"Origin", APP + b".evil.example"),),
        ((b"Origin", APP), (b"Origin", b"https://evil.example")),
        ((b"Origin", b"https://evil.example"), (b"Sec-Fetch-Site", b"none")),
        ((b"Sec-Fetch-Site", b"cross-site"),),
        ((b"Sec-Fetch-Site", b"same-site"),),
        ((b"Sec-Fetch-Site", b"same-origin"), (b"host", b"rebound.example")),
        ((b"sec-fetch-site", b"anything new"),),
    ],
)
def test_a_page_of_any_other_origin_is_refused(fields):
    assert code_of(*fields) == "origin_refused"


@pytest.mark.parametrize(
    "sign",
    [
        (b"Sec-Fetch-Mode", b"navigate"),
        (b"Upgrade-Insecure-Requests", b"1"),
        (b"Accept", b"text/html,application/xhtml+xml,*/*;q=0.8"),
        (b"accept", b"application/json, Text/HTML"),
    ],
)
def test_a_navigation_is_refused_from_listed_origins_too(sign):
    assert code_of(sign) == "navigation_refused"
    assert code_of((b"Origin", APP), sign) == "navigation_refused"


@pytest.mark.parametrize("host", [b"192.168.1.5:8080", b"[fd00::5]:8080", b"meter.example.org"])
@pytest.mark.parametrize(
    "signs",
    [
        ((b"Referer", b"http://evil.example/"),),
        (FIREFOX, (b"Referer", b"http://evil.example/"), (b"Accept", b"image/*")),
        (FIREFOX, (b"Referer", b"http://192.168.1.5:3000/"), LANGUAGE),
        (FIREFOX, (b"Referer", b"http://evil.example/http://192.168.1.5:8080/")),
        (FIREFOX, (b"Referer", b"")),
        (FIREFOX, LANGUAGE),  # <img referrerpolicy="no-referrer">
    ],
)
def test_a_page_of_another_origin_is_refused_without_the_headers_of_secure_contexts(host, signs):
    assert code_of((b"Host", host), *signs) == "origin_refused"


@pytest.mark.parametrize("sign", [FIREFOX, (b"Referer", b"http://rebound.example/")])
@pytest.mark.parametrize("host", [b"rebound.example:8080", b"", b"2130706433", b"127.1"])
def test_a_browser_at_a_name_that_is_not_ours_is_refused(sign, host):
    """A rebound name is found by this where there is no Sec-Fetch-Site, as with plain http."""
    assert code_of((b"host", host), sign) == "host_refused"


def test_a_program_with_the_looks_of_a_browser_may_post_by_any_name():
    """Browsers send an Origin with everything but GET and HEAD."""
    assert RULES.judge("POST", headers.index(((b"host", b"any.reverse.proxy"), FIREFOX))) is None


ACTING = (
    b"Set-Cookie Set-Cookie2 Service-Worker-Allowed Clear-Site-Data Refresh Location Link"
    b" Strict-Transport-Security Content-Security-Policy Content-Security-Policy-Report-Only"
    b" Report-To Reporting-Endpoints NEL Accept-CH WWW-Authenticate Set-Login Origin-Agent-Cluster"
    b" Secure-Session-Registration Use-As-Dictionary Content-Location Access-Control-Allow-Origin"
    b" Access-Control-Allow-Credentials Cache-Control ETag Vary X-Frame-Options"
).split()


def test_a_page_gets_no_header_that_acts_on_our_origin():
    returned = RULES.returned(tuple((name, b"1") for name in ACTING), APP)
    assert returned == RULES.returned((), APP)


def test_a_page_gets_what_it_needs_and_is_told_so():
    kept = (
        (b"Content-Type", b"text/html"),
        (b"request-id", b"req_1"),
        (b"retry-after", b"3"),
        (b"Anthropic-Ratelimit-Requests-Remaining", b"9"),
        (b"transfer-encoding", b"chunked"),
        (b"x-taximeter-error", b"rate_limited"),
    )
    returned = RULES.returned(kept, APP)
    assert returned[: len(kept)] == kept
    added = dict(returned[len(kept) :])
    assert added == {
        b"access-control-allow-origin": APP,
        b"access-control-expose-headers": b"*",
        b"cache-control": b"no-store",
        b"content-security-policy": b"sandbox",
        b"vary": b"origin",
        b"x-content-type-options": b"nosniff",
    }


def test_a_preflight_is_told_what_a_page_may_send():
    names = b"anthropic-version,content-type,x-api-key,x-stainless-os"
    asked = (
        (b"Origin", APP),
        (b"Access-Control-Request-Method", b"POST"),
        (b"Access-Control-Request-Headers", names),
    )
    assert browsers.is_preflight("OPTIONS", headers.index(asked))
    answer = dict(browsers.make_preflight_fields(headers.index(asked), APP))
    assert answer[b"access-control-allow-origin"] == APP
    assert answer[b"access-control-allow-headers"] == names
    assert b"POST" in answer[b"access-control-allow-methods"]
    assert b"access-control-allow-private-network" not in answer
    assert b"access-control-allow-credentials" not in answer


def test_a_preflight_may_ask_for_a_private_network():
    asked = ((b"Access-Control-Request-Private-Network", b"true"),)
    answer = dict(browsers.make_preflight_fields(headers.index(asked), APP))
    assert answer[b"access-control-allow-private-network"] == b"true"
    assert b"access-control-allow-headers" not in answer


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("POST", ((b"access-control-request-method", b"POST"),)),
        ("OPTIONS", ()),
    ],
)
def test_other_requests_are_no_preflight(method, fields):
    assert not browsers.is_preflight(method, headers.index(fields))
