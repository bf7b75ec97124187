"""``taximeter run --forward-proxy``: what is opened, recorded, passed on and left."""

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import psutil
import pytest

from manage.cli.forward_proxy import ForwardProxy, find_route
from tests.lazily import import_lazily
from tests.live import forward_client
from tests.live.clients.programs import CLAUDE, NODE_DIR, needs_claude_code, needs_proxies_in_node
from tests.live.command import Done, call_here, running
from tests.live.forward_client import connect, encode, exchange, find_issuer, read_until
from tests.live.messages import MODEL, Answer, text
from tests.live.office import AUTHORIZATION, HOST, OTHER, Office
from tests.live.service import API_KEY, REQUEST_HEADERS, is_over
from tests.live.wire.checks import files_with
from tests.rawclient import RawClient, request
from tests.upstream import (
    PATIENCE_S,
    STALL,
    Gate,
    Script,
    SeenRequest,
    answer,
    event,
    message_json,
    refusing_address,
    sse,
    wait_until,
)

if TYPE_CHECKING:
    import anthropic
else:
    anthropic = import_lazily("anthropic")  # which takes more than a second

TOLD = (
    ("Host", HOST),
    ("X-Api-Key", API_KEY),
    ("anthropic-version", "2023-06-01"),
    ("X-Odd-Header", "one"),
    ("x-odd-header", "two"),
    ("Cookie", "a=b"),
    ("x-forwarded-for", "192.0.2.7"),
    ("Connection", "keep-alive"),
    ("Content-Type", "application/json"),
)


def python(source: str) -> tuple[str, ...]:
    """Return a client of raw bytes for `taximeter run`."""
    start = f"import json, os, ssl, sys\nfrom {forward_client.__name__} import *\n"
    return (sys.executable, "-c", start + source)


def run_here(environ: dict[str, str], *arguments: str) -> Done:
    """Do as `taximeter run --forward-proxy` does, in this process."""
    return call_here(("run", "--forward-proxy", *arguments), environ)


@pytest.fixture(autouse=True)
def fresh(office: Office, patient_runs: None) -> None:
    """Forgets what the test before has done."""
    office.reset()


def head_of(method: str, target: str, length: int = 2) -> str:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in TOLD)]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""])


def test_message_calls_are_recorded_and_all_is_sent_as_when_direct(
    office: Office, tmp_path: Path
) -> None:
    before = len(office.rows())
    heads = [head_of("POST", path) for path in ("/v1/messages?beta=true", "/api/settings?x=%2F")]
    source = f"""
with connect({HOST!r}) as connection:
    print(json.dumps([exchange(connection, head, b"{{}}") for head in {heads!r}] + [find_issuer(connection)]))
"""
    found = office.run_whole(*python(source), TMPDIR=str(tmp_path))
    call_response, other_response, issuer = found
    assert issuer == "Taximeter run"
    assert call_response[0].startswith("HTTP/1.1 200")
    assert [each[1].encode() for each in (call_response, other_response)] == [message_json()] * 2
    message, settings = sorted(office.upstream.requests, key=lambda each: each.target, reverse=True)
    # Byte by byte as the client has sent them, names, order, cookies and all.
    assert [message.head.decode(), settings.head.decode()] == heads
    (row,) = office.rows()[before:]
    assert row["run_id"]
    assert row["path_query"] == "/v1/messages?beta=true"
    assert (row["slug"], row["request_body"], row["status_code"]) == ("default", "{}", 200)
    assert list(tmp_path.iterdir()) == [], "the files of the forward proxy are gone"


def test_calls_are_handed_over_to_a_service_elsewhere(office: Office) -> None:
    key = office.service.create_key("a run elsewhere")
    before = len(office.rows())
    head = head_of("POST", "/v1/messages")
    environ = {name: text for name, text in office.environ.items() if "DATA_DIR" not in name}
    done = run_here(
        environ | {"TAXIMETER_API_KEY": key},
        *("--base-url", f"http://{office.service.host}", "--"),
        *python(f"exchange(connect({HOST!r}), {head!r}, b'{{}}')"),
    )
    assert done.returncode == 0, done.stderr
    assert "taximeter: 1 call" in done.stderr
    assert [each.head.decode() for each in office.upstream.requests] == [head]
    assert len(office.rows()) == before + 1


def test_others_on_the_machine_cannot_use_it(office: Office) -> None:
    """Not without the password in the environment of the client, and so neither with that of the user."""
    proxy = forward_client.find_proxy(office.variables)
    wrong = encode(f"{proxy.username}:wrong")
    said = []
    for line in ("", f"Proxy-Authorization: Basic {wrong}\r\n", "Proxy-Authorization: Basic ?\r\n"):
        for target in (f"CONNECT {HOST}:443", f"CONNECT {OTHER}:443", f"GET http://{OTHER}/"):
            with RawClient((proxy.hostname or "", proxy.port or 0)) as client:
                client.send(f"{target} HTTP/1.1\r\nHost: {OTHER}\r\n{line}\r\n".encode())
                said.append(client.read_response_head().status)
    assert said == [407] * 9
    assert office.proxy.asked == []


def test_what_passes_is_stored_nowhere(office: Office) -> None:
    secret = b"a-secret-of-the-telemetry"
    head = head_of("POST", "/api/event_logging/v2/batch", len(secret))
    with connect(HOST, office.variables) as connection:
        exchange(connection, head, secret)
    (seen,) = office.upstream.requests
    assert bytes(seen.body) == secret
    assert files_with(office.service, secret) == []


def test_other_hosts_keep_their_certificates_and_all_goes_through_the_proxy_of_the_user(
    office: Office,
) -> None:
    head = head_of("GET", "/a", 0).replace(HOST, OTHER)
    with connect(OTHER, office.variables) as connection:
        exchange(connection, head)
        assert find_issuer(connection) != "Taximeter run"
    assert [each.head.decode() for each in office.other.requests] == [head]
    assert office.proxy.asked == [f"{OTHER}:443"]
    assert all(f"proxy-authorization: {AUTHORIZATION}" in each for each in office.proxy.heads)


def test_an_upstream_with_an_unknown_certificate_gets_nothing(office: Office) -> None:
    """Nobody but the service and the forward proxy could notice: the client sees our certificate."""
    other = office.environ | {"SSL_CERT_FILE": certifi.where()}
    head = head_of("POST", "/api/settings")
    source = f"sys.exit(exchange(connect({HOST!r}), {head!r}, b'{{}}')[0].split()[1] != '502')"
    done = run_here(other, "--", *python(source))
    assert done.returncode == 0, done.stderr
    assert office.upstream.requests == []


def test_a_client_that_does_not_trust_the_certificate_is_told_of(office: Office) -> None:
    source = f"""
del os.environ["SSL_CERT_FILE"]
try:
    connect({HOST!r})
except ssl.SSLCertVerificationError:
    sys.exit(7)
"""
    done = run_here(office.environ, "--", *python(source))
    assert done.returncode == 7, done.stderr
    assert f"1 connection to {HOST} ended with its certificate" in done.stderr


def test_a_client_that_does_not_come_is_told_of(office: Office) -> None:
    done = run_here(office.environ, "--", "true")
    assert done.returncode == 0
    assert f"Nothing was sent to {HOST} through the forward proxy" in done.stderr
    assert "ANTHROPIC_BASE_URL, or have" not in done.stderr


WAITING = f"""
import time
with connect({HOST!r}):
    print(os.environ["SSL_CERT_FILE"], flush=True)
    time.sleep(600)
"""


def list_tree(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_run_ends(office: Office, number: signal.Signals) -> None:
    command = ("run", "--forward-proxy", "--", *python(WAITING))
    with running(command, office.environ) as (process, output, _errors):
        wait_until(lambda: output.text.endswith("\n"), "the client", patience_s=PATIENCE_S)
        bundle, tree = Path(output.text.strip()), list_tree(process.pid)
        assert bundle.is_file()
        commands = [each.cmdline() for each in tree]
        assert any("addon.forward" in each for each in commands), commands
        assert len(tree) == 2
        for each in tree:
            for connection in each.net_connections():
                if connection.status == psutil.CONN_LISTEN:
                    assert connection.laddr.ip == "127.0.0.1"
        process.send_signal(number)
        wait_until(lambda: all(map(is_over, tree)), "the end of all", patience_s=PATIENCE_S)
        wait_until(lambda: not bundle.parent.exists(), "the end of its files")


def test_nothing_of_a_key_is_on_disk(office: Office) -> None:
    files = Path(office.variables["SSL_CERT_FILE"]).parent.rglob("*")
    found = {path.name: "PRIVATE KEY" in path.read_text() for path in files}
    assert found == {"roots.pem": False, "bundle.pem": False}


def test_a_stream_and_its_head_come_as_they_are(office: Office) -> None:
    """Each event comes before the upstream goes on, through the forward proxy and the service."""
    gate = Gate()
    odd = [("set-cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Odd", "yes"), ("content-length", "2")]
    head = b"HTTP/1.1 200 OK\r\n" + b"".join(f"{n}: {v}\r\n".encode() for n, v in odd) + b"\r\n"
    office.upstream.enqueue(
        Script((head + b"{}",)), sse([event("ping"), gate, event("message_stop")])
    )
    with connect(HOST, office.variables) as connection:
        passed = exchange(connection, head_of("GET", "/api/settings", 0))
        assert passed == (head.decode(), "{}")
        connection.sendall(head_of("POST", "/v1/messages").encode() + b"{}")
        read_until(connection, b"event: ping")
        gate.open()
        read_until(connection, b"event: message_stop")


def test_websockets_pass(office: Office) -> None:
    accepted = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    key = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    office.upstream.enqueue(Script((accepted + key + b"\x81\x05hello", STALL)))
    asked = (
        f"GET /v1/code/sessions/x HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with connect(HOST, office.variables) as connection:
        connection.sendall(asked.encode())
        assert read_until(connection, b"hello").endswith(b"\x81\x05hello")
    assert [each.target for each in office.upstream.requests] == ["/v1/code/sessions/x"]


def test_without_its_service_a_client_hears_why(office: Office) -> None:
    """The address of nobody stands for a service that has ended."""
    with refusing_address() as closed:
        route = find_route(f"https://{HOST}", f"{closed}/proxy/x/run/y", "x")
        with (
            ForwardProxy(office.environ, route) as proxy,
            connect(HOST, proxy.variables) as connection,
        ):
            head, body = exchange(connection, head_of("POST", "/v1/messages"), b"{}")
    assert head.startswith("HTTP/1.1 502")
    assert json.loads(body)["type"] == "error"
    assert office.upstream.requests == []


# -- the service behind the proxy of a company -----------------------------------------------------


def test_calls_of_a_service_behind_a_proxy_and_its_own_pages_share_a_connection(
    office: Office,
) -> None:
    message = request("POST", "/proxy/default/v1/messages", REQUEST_HEADERS, b"{}")
    page = request("GET", "/sign-in", [("Host", office.service.host)])
    with office.service.connect() as client:
        for each in (page, message, page, message):
            assert client.exchange(each).status == 200
    assert len(office.upstream.requests) == 2
    assert office.proxy.asked == [f"{HOST}:443"], "one connection for both"


@pytest.mark.parametrize(
    ("upstream", "status", "outcome"),
    [("silent", 504, "upstream_timeout"), ("refused", 502, "upstream_unreachable")],
)
def test_a_proxy_that_opens_no_connection_is_an_upstream_that_is_away(
    office: Office, upstream: str, status: int, outcome: str
) -> None:
    office.service.create_endpoint(f"to-{upstream}", upstream=upstream)
    response = office.service.send(
        request("POST", f"/proxy/to-{upstream}/v1/messages", REQUEST_HEADERS, b"{}")
    )
    assert response.status == status
    assert response.header("x-taximeter-error") == outcome
    (row,) = office.service.settled_rows(f"to-{upstream}")
    assert (row["outcome"], row["status_code"]) == (outcome, None)


# -- clients ---------------------------------------------------------------------------------------

REPLY = Answer(content=[text("Hello from the upstream")])


def respond(seen: SeenRequest) -> Script:
    """Respond to message calls, and refuse the rest of what Claude Code asks for."""
    if seen.target.partition("?")[0] == "/v1/messages":
        return REPLY.script(streamed=b'"stream":true' in bytes(seen.body))
    return answer(404, b"{}")


def test_the_python_sdk_is_recorded(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(office.rows())
    office.upstream.otherwise = Script((respond,))
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    for name, value in office.variables.items():
        monkeypatch.setenv(name, value)
    with anthropic.Anthropic(api_key=API_KEY, max_retries=0) as client:
        message = client.messages.create(
            model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}]
        )
    assert [block.to_dict() for block in message.content] == [text(REPLY.text)]
    (row,) = office.rows()[before:]
    assert row["client"].startswith("Anthropic/Python")
    assert row["run_id"]


@needs_claude_code
def test_claude_code_is_recorded_and_its_telemetry_is_not(office: Office, tmp_path: Path) -> None:
    before = len(office.rows())
    office.upstream.otherwise = Script((respond,))
    command = (str(CLAUDE), "-p", "--model", MODEL, "--output-format", "json", "say hi")
    result = office.run_whole(
        *command, HOME=str(tmp_path), ANTHROPIC_API_KEY=API_KEY, TMPDIR=str(tmp_path)
    )
    assert result["result"] == REPLY.text
    (row,) = office.rows()[before:]
    assert row["session_id"] == result["session_id"]
    assert row["client"].startswith("claude-cli/")
    targets = {each.target.partition("?")[0] for each in office.upstream.requests}
    assert "/v1/messages" in targets
    assert any(target.startswith("/api/") for target in targets), "what it asks only when direct"
    (message,) = [each for each in office.upstream.requests if each.target.startswith("/v1/mess")]
    names = {name.lower() for name, _ in message.headers}
    # It sends these to its vendor alone.
    assert {"x-client-request-id", "x-claude-code-prompt-id"} <= names
    assert not any(name.startswith("x-taximeter") for name in names)


@needs_proxies_in_node
def test_the_typescript_sdk_is_recorded(office: Office) -> None:
    before = len(office.rows())
    office.upstream.otherwise = Script((respond,))
    said = office.run("node", str(NODE_DIR / "message.mjs"), ANTHROPIC_API_KEY=API_KEY)
    assert said == REPLY.text
    (row,) = office.rows()[before:]
    assert row["client"].startswith("Anthropic/JS")
