import asyncio
import ipaddress
import ssl

import pytest
import trustme

from dashboard.budgets.webhook_client import WebhookClient, WebhookError
from dashboard.budgets.webhook_messages import WebhookMessage
from runtime.webhook_rule import PUBLIC_ONLY, WebhookRule
from tests.upstream import CLOSE, Script, Upstream, answer

LOCAL = WebhookRule(allows_loopback=True)
MESSAGE = WebhookMessage({"webhook-id": "msg_1"}, b'{"a":1}')


@pytest.fixture
def receiver():
    with Upstream() as receiver:
        yield receiver


def post(url, rule=LOCAL, **options):
    asyncio.run(WebhookClient(rule, **options).post(url, MESSAGE))


def resolving_to(*addresses):
    async def resolve(_host, _port):
        return addresses

    return resolve


def test_a_message_is_posted_as_it_is(receiver):
    receiver.enqueue(answer(204, b""))
    post(f"{receiver.url}/hooks?team=blue")
    (request,) = receiver.requests
    assert (request.method, request.target) == ("POST", "/hooks?team=blue")
    assert request.body == MESSAGE.body
    assert request.header("host") == receiver.url.removeprefix("http://")
    assert request.header("content-type") == "application/json"
    assert request.header("webhook-id") == "msg_1"


@pytest.mark.parametrize(
    ("script", "reason", "is_final"),
    [
        (answer(500, b"no"), "responded with 500", False),
        (answer(410, b""), "responded with 410", True),
        (Script((CLOSE,)), "not valid HTTP", False),
        (Script((b"220 mail.example ESMTP\r\n\r\n", CLOSE)), "not valid HTTP", False),
    ],
)
def test_what_does_not_accept_a_message_is_an_error(receiver, script, reason, is_final):
    receiver.enqueue(script)
    with pytest.raises(WebhookError, match=reason) as raised:
        post(f"{receiver.url}/")
    assert raised.value.is_final is is_final
    assert len(receiver.requests) == 1


def test_an_address_that_the_rule_does_not_allow_any_more_is_refused(receiver):
    with pytest.raises(WebhookError, match="not a public address"):
        post(f"{receiver.url}/", PUBLIC_ONLY)
    assert receiver.requests == []


def test_tls_verifies_the_name_and_not_the_address():
    authority = trustme.CA()
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    inside = WebhookRule((ipaddress.ip_network("127.0.0.0/8"),))
    for name, is_accepted in (("hooks.example.org", True), ("other.example.org", False)):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(server)
        with Upstream(server) as receiver:
            receiver.otherwise = answer(200, b"")
            port = receiver.url.rpartition(":")[2]
            url = f"https://hooks.example.org:{port}/"
            options = {"resolver": resolving_to("127.0.0.1"), "trust": trust}
            if is_accepted:
                post(url, inside, **options)
                assert receiver.requests[0].header("host") == f"hooks.example.org:{port}"
            else:
                with pytest.raises(WebhookError, match="TLS failed"):
                    post(url, inside, **options)
                assert receiver.requests == []


def test_the_next_address_is_tried_where_one_does_not_respond(receiver):
    port = receiver.url.rpartition(":")[2]
    receiver.enqueue(answer(200, b""))
    post(f"http://localhost:{port}/", resolver=resolving_to("127.0.0.9", "127.0.0.1"))
    assert len(receiver.requests) == 1


def test_a_name_that_nobody_knows_is_an_error():
    async def fail(_host, _port):
        raise OSError(-2, "Name or service not known")

    with pytest.raises(WebhookError, match="cannot be reached: Name or service not known"):
        post("https://hooks.example.org/", resolver=fail)
