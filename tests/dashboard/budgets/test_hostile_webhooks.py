"""Attacks by the owner of an organisation who chooses a webhook, and by the receiver that it names."""

import asyncio
import ipaddress
import socket
import threading

import pytest

from dashboard.budgets import webhook_client
from dashboard.budgets.webhook_client import WebhookClient, WebhookError
from dashboard.budgets.webhook_messages import WebhookMessage
from runtime.webhook_rule import PUBLIC_ONLY, WebhookRule
from tests.upstream import CLOSE, STALL, Script, Upstream, answer

LOCAL = WebhookRule(allows_loopback=True)
MESSAGE = WebhookMessage({"webhook-id": "msg_1"}, b"{}")

# Ways to write an address of this machine or its network. None may be set on a public service.
WRITTEN = [
    *("127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "017700000001"),  # noqa: S104
    *("0x7f000001", "0x7f.1", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.01", "00127.0.0.1", "0x"),
    *("127.0.0.1.", "2130706433.", "169.254.169.254", "169.254.169.254.", "0xa9fea9fe", "2852039166"),
    *("1.2.3.4.5", "256.256.256.256", "4294967295", "8.8.8", "a.1", "example.0x7f"),
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "a.localhost."),
    *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]"),
    *("[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]"),
    *("[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]"),
    *("[::1%1]", "[::1%25lo]", "[fe80::1%25eth0]", "[2606:2800:220:1::1%25eth0]", "[v1.x]", "[]"),
    *("%31%32%37.0.0.1", "127%2e0.0.1", "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u24dbocalhost", "local\u00adhost"),
    *("user@127.0.0.1", "@127.0.0.1", "hooks.example.org@127.0.0.1", "hooks.example.org:x@127.0.0.1"),
    *("hooks.example.org\\@127.0.0.1", "127.0.0.1\\.example.org", "127.0.0.1#.example.org"),
    *("hooks..example.org", ".example.org", "-a.example.org", "a" * 64 + ".example.org", "a,b", "*"),
    *("hooks.example.org:0", "hooks.example.org:99999", "hooks.example.org:-1", "hooks.example.org:44x"),
    *("hooks.example.org:443:80", "127.0.0.1\t.example.org", "hooks.example.org\r\nhost: x", "a b"),
    *("168.63.129.16", "100.100.100.200", "192.0.0.192", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
]  # fmt: skip
# What a name may resolve to, by the addresses alone; some are more than one.
RESOLVED = [
    *(["127.0.0.1"], ["0.0.0.0"], ["10.0.0.1"], ["169.254.169.254"], ["100.64.0.1"]),  # noqa: S104
    *(["::1"], ["::"], ["::ffff:127.0.0.1"], ["::127.0.0.1"], ["::ffff:0:127.0.0.1"]),
    *(["fe80::1%lo"], ["fe80::1"], ["fec0::1"], ["fc00::1"], ["ff02::1"], ["64:ff9b::7f00:1"]),
    *(["64:ff9b:1::7f00:1"], ["2002:7f00:1::"], ["2001:0:1::"], ["100::1"], ["5f00::1"], ["4000::1"]),
    *(["127.0.0.1", "::1", "10.0.0.1"], ["168.63.129.16"], ["192.0.0.192"], ["192.0.0.9"], []),
]  # fmt: skip


def resolving_to(*answers):
    """A resolver with an answer for each time that it is asked; the last one stays."""
    left = list(answers)

    async def resolve(_host, _port):
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


def post(url, rule=LOCAL, **options):
    asyncio.run(WebhookClient(rule, **options).post(url, MESSAGE))


@pytest.fixture
def connections(monkeypatch):
    """The addresses that were connected to; no connection is made."""
    found = []

    async def connect(address, *_, **__):
        found.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(asyncio, "open_connection", connect)
    return found


@pytest.mark.parametrize("host", WRITTEN, ids=ascii)
def test_no_way_to_write_an_inner_address_is_taken(host):
    for scheme in ("https", "http"):
        with pytest.raises(ValueError, match=r"webhook|public address"):
            PUBLIC_ONLY.check(f"{scheme}://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        *("//127.0.0.1/", "https:/127.0.0.1/", "https:127.0.0.1", "HTTPS:///x", "https://?x"),
        *("file:///etc/passwd", "gopher://127.0.0.1/", "ftp://8.8.8.8/", "unix:///run/x", "data:,x"),
        *("javascript:alert(1)", "https+unix://x/", " https://8.8.8.8/", "https://8.8.8.8/\x00", ""),
        *("https://8.8.8.8/#x", "https://8.8.8.8/\u2028", "https://8.8.8.8/" + "x" * 2000),
    ],
)  # fmt: skip
def test_nothing_but_an_https_address_is_taken(url):
    with pytest.raises(ValueError, match="webhook"):
        PUBLIC_ONLY.check(url)


@pytest.mark.parametrize(
    "host",
    [
        *("hooks.example.org", "hooks.example.org.", "a-b.example", "_x.example.org", "xn--bcher-kva.example"),
        *("8.8.8.8", "[2606:2800:220:1::1]", "hooks.example.org:8443", "3com.example", "1.example", "0x7f.org"),
    ],
)  # fmt: skip
def test_receivers_that_are_public_are_taken(host):
    PUBLIC_ONLY.check(f"https://{host}/hook?a=b")


@pytest.mark.parametrize("addresses", RESOLVED, ids=str)
def test_a_name_for_an_inner_address_is_not_connected_to(connections, addresses):
    with pytest.raises(WebhookError, match="not a public address"):
        post("https://hooks.example.org/", PUBLIC_ONLY, resolver=resolving_to(addresses))
    assert connections == []


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(connections):
    """A name server that answers otherwise when asked again is not asked again."""
    resolver = resolving_to(["8.8.8.8"], ["127.0.0.1"])
    with pytest.raises(WebhookError, match="cannot be reached"):
        post("https://hooks.example.org/", PUBLIC_ONLY, resolver=resolver)
    assert connections == ["8.8.8.8"]


def test_of_several_addresses_only_those_that_are_public_are_tried(connections):
    mixed = ["127.0.0.1", "8.8.8.8", "::ffff:10.0.0.1", "2606:2800:220:1::1"]
    with pytest.raises(WebhookError, match="cannot be reached"):
        post("https://hooks.example.org/", PUBLIC_ONLY, resolver=resolving_to(mixed))
    assert connections == ["8.8.8.8", "2606:2800:220:1::1"]


def test_nothing_leaves_the_machine_without_tls(connections):
    for host in ("localhost", "a.localhost"):
        with pytest.raises(WebhookError, match="not a public address"):
            post(f"http://{host}/", resolver=resolving_to(["8.8.8.8"]))
    assert connections == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}/", "http://localhost:{}/", "http://127.1.2.3:{}/"])  # fmt: skip
def test_a_service_on_loopback_sends_to_loopback(url):
    with Upstream() as receiver:
        receiver.otherwise = answer(200, b"")
        port = receiver.url.rpartition(":")[2]
        if "127.1" in url:  # another address of this machine, where nobody listens
            with pytest.raises(WebhookError, match="cannot be reached"):
                post(url.format(port))
        else:
            post(url.format(port))
            assert len(receiver.requests) == 1


def test_a_network_of_the_operator_opens_that_network_alone():
    rule = WebhookRule((ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00::/8")))
    for host, is_allowed in (
        *(("10.1.2.3", True), ("[::ffff:10.1.2.3]", True), ("[fd00::1]", True)),
        *(("10.2.0.1", False), ("[64:ff9b::a01:203]", False), ("[2002:a01:203::]", False)),
        *(("127.0.0.1", False), ("[fec0::1]", False), ("167838211", False)),
    ):
        if is_allowed:
            rule.check(f"https://{host}/")
        else:
            with pytest.raises(ValueError, match=r"webhook|public address"):
                rule.check(f"https://{host}/")


INTERIM = b"HTTP/1.1 100 \r\n\r\n"
RESPONSES = {
    "a redirect to another address": (
        answer(307, b"", [("location", "http://127.0.0.1:1/")]),
        "responded with 307",
    ),
    "a redirect to a file": (
        answer(302, b"", [("location", "file:///etc/passwd")]),
        "responded with 302",
    ),
    "many interim responses": (Script((INTERIM * 50_000, CLOSE)), "not valid HTTP"),
    "interim responses without end": (Script((INTERIM * 10_000, STALL)), "not valid HTTP"),
    "a header without end": (
        Script((b"HTTP/1.1 200 OK\r\nx: " + b"x" * 500_000, STALL)),
        "not valid HTTP",
    ),
    "many headers": (
        Script((b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000, STALL)),
        "not valid HTTP",
    ),
    "blank lines without end": (Script((b"\r\n" * 200_000, STALL)), "not valid HTTP"),
    "a status line without end": (Script((b"HTTP/1.1 200 " + b"O" * 500_000, STALL)), "not valid"),
    "a status of four digits": (Script((b"HTTP/1.1 2000 OK\r\n\r\n", CLOSE)), "not valid HTTP"),
    "a switch of protocols": (
        Script((b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", STALL)),
        "not valid HTTP|responded with 101",
    ),
    "two lengths": (
        Script((b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", CLOSE)),
        "not valid HTTP",
    ),
    "one byte and silence": (Script((b"H", STALL)), "did not respond in time"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if "in time" in reason else ())
        for name, (_, reason) in RESPONSES.items()
    ],
)
def test_what_a_receiver_responds_is_an_error_of_its_delivery_alone(name):
    script, reason = RESPONSES[name]
    with Upstream() as receiver:
        receiver.enqueue(script)
        with pytest.raises(WebhookError, match=reason):
            post(f"{receiver.url}/", timeout_s=2.0 if "time" in reason else 60.0)
        # Of one that is slow to begin the time may be over sooner.
        assert len(receiver.requests) <= 1, "nothing was followed"


@pytest.mark.parametrize(
    "fields",
    [
        [("content-encoding", "gzip"), ("content-length", "999999999")],
        [("transfer-encoding", "chunked")],
        [("content-length", "18446744073709551615")],
    ],
)
def test_of_what_accepts_a_message_no_body_is_read(fields):
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    with Upstream() as receiver:
        receiver.enqueue(Script((f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode(), b"x" * 10_000, STALL)))
        post(f"{receiver.url}/", timeout_s=60.0)


def test_names_that_never_resolve_hold_up_nobody_else(monkeypatch):
    """Neither other webhooks, nor mail and sign-in: these use the event loop's own threads."""
    look_up, held = socket.getaddrinfo, threading.Event()

    def hang(host, *args, **kwargs):
        if host == "localhost":
            return look_up(host, *args, **kwargs)
        held.wait(60)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", hang)

    async def attack(url):
        client = WebhookClient(LOCAL, timeout_s=60)
        posts = [
            asyncio.ensure_future(client.post(f"https://h{n}.example.org/", MESSAGE))
            for n in range(20)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(int) == 0
            await client.post(url, MESSAGE)
        held.set()
        results = await asyncio.gather(*posts, return_exceptions=True)
        assert {type(each) for each in results} == {WebhookError}

    try:
        with Upstream() as receiver:
            receiver.otherwise = answer(200, b"")
            port = receiver.url.rpartition(":")[2]
            asyncio.run(attack(f"http://localhost:{port}/"))
    finally:
        held.set()
    assert webhook_client.TIMEOUT_S <= 15
