"""The health check of a container."""

import pytest

from manage.healthcheck import find_fault
from tests.upstream import CLOSE, Script, Upstream, answer, refusing_address


def listen_at(upstream: Upstream) -> dict[str, str]:
    return {"TAXIMETER_LISTEN": upstream.url.removeprefix("http://")}


def test_a_proxy_that_serves_has_no_fault():
    with Upstream() as proxy:
        proxy.enqueue(answer(200, b'{"status":"ok"}'))
        assert find_fault(listen_at(proxy)) is None
        assert proxy.requests[0].target == "/livez"


@pytest.mark.parametrize(
    "script",
    [
        answer(503, b'{"status":"ok"}'),
        answer(200, b"<html>"),
        answer(200, b"[]"),
        answer(200, b'{"status":"starting"}'),
        Script((CLOSE,)),
        Script((b"SSH-2.0-OpenSSH\r\n", CLOSE)),
    ],
    ids=["failing", "another program", "other JSON", "not ok", "no response", "no HTTP"],
)
def test_anything_else_that_responds_is_a_fault(script: Script) -> None:
    with Upstream() as proxy:
        proxy.enqueue(script)
        fault = find_fault(listen_at(proxy))
    assert fault
    assert "/livez" in fault


def test_nothing_that_listens_is_a_fault():
    with refusing_address() as url:
        fault = find_fault({"TAXIMETER_LISTEN": url.removeprefix("http://")})
    assert fault == f"{url}/livez does not respond: [Errno 111] Connection refused"


def test_a_proxy_on_every_interface_is_asked_on_loopback():
    with Upstream() as proxy:
        proxy.enqueue(answer(200, b'{"status":"ok"}'))
        port = proxy.url.rpartition(":")[2]
        assert find_fault({"TAXIMETER_LISTEN": f"0.0.0.0:{port}"}) is None
