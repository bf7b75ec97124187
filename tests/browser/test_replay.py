"""A call that is sent again from its page, with a credential that is pasted there."""

import json
from collections.abc import Iterator

import pytest

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.live.wire.checks import files_with
from tests.upstream import Gate, answer, error_json, message_events, sse

CREDENTIAL = "sk-ant-pasted-into-the-page-4711"
EVIL = "<img id=injected src=x onerror=alert(1)><script>alert(1)</script>"
REQUEST = (
    b'{"model": "claude-sonnet-4-5", "max_tokens": 100, "stream": true, "metadata": {"n": 1.0},'
    b' "messages": [{"role": "user", "content": "What is the fare?"}]}'
)


@pytest.fixture
def call_id(site: Site) -> Iterator[int]:
    """A recorded call of the local user's endpoint."""
    site.upstream.reset()
    site.upstream.enqueue(sse(message_events(["Twelve", " euros."])))
    site.call(REQUEST)
    yield site.find_newest_call()
    site.upstream.reset()


def test_a_changed_call_streams_beside_the_old_one(
    site: Site, signed_in: Visitor, call_id: int
) -> None:
    gate = Gate()
    first, *rest = message_events([EVIL, " Thirteen euros."])
    site.upstream.enqueue(sse([first, *rest[:2], gate, *rest[2:]]))
    signed_in.open(f"/calls/{call_id}/raw")
    signed_in.follow("Change it and send")
    assert signed_in.faults() == []
    signed_in.run("history.replaceState(history.state, '')")
    signed_in.run(
        "const field = document.getElementById('max_tokens');"
        "field.value = '200'; field.dispatchEvent(new Event('change'))"
    )
    signed_in.see("Changed: max_tokens changed")
    signed_in.fill("Upstream credential", CREDENTIAL)
    signed_in.click("Send")
    signed_in.see(EVIL)
    assert "Thirteen" not in signed_in.text, "what has come is shown before the rest"
    gate.open()
    signed_in.see("Thirteen euros.")
    signed_in.see("Compare both")
    assert "Twelve euros." in signed_in.text
    assert signed_in.run("return document.getElementById('injected')") is None

    _, sent = site.upstream.requests
    changed = REQUEST.replace(b"100", b"200")
    assert json.loads(bytes(sent.body)) == json.loads(changed)
    assert b"1.0" in bytes(sent.body), "numbers stay as they were written"
    assert sent.header("x-api-key") == CREDENTIAL
    for name in ("origin", "cookie", "referer", "x-taximeter-replay"):
        assert sent.header(name) is None

    assert CREDENTIAL not in signed_in.run(
        "return location.href + JSON.stringify(history.state) + JSON.stringify(localStorage)"
        " + JSON.stringify(sessionStorage) + document.cookie + document.documentElement.outerHTML"
    )
    signed_in.follow("Compare both")
    assert "max_tokens" in signed_in.text
    signed_in.back()
    assert signed_in.run("return document.getElementById('credential').value") == ""
    assert files_with(site.service, CREDENTIAL.encode()) == []
    assert CREDENTIAL not in site.service.output


def test_what_is_not_changed_is_sent_byte_for_byte_and_an_error_is_shown(
    site: Site, signed_in: Visitor, call_id: int
) -> None:
    site.upstream.enqueue(answer(401, error_json("authentication_error", f"invalid: {EVIL}")))
    signed_in.open(f"/traces/usage/{call_id}/replay")
    signed_in.click("Send")
    signed_in.see("Paste the credential of the upstream first.")
    signed_in.fill("Upstream credential", CREDENTIAL)
    signed_in.choose("Sent as", "Token (authorization: Bearer)")
    signed_in.click("Send")
    signed_in.see(f"invalid: {EVIL}")
    signed_in.see("Status 401.")
    _, sent = site.upstream.requests
    assert bytes(sent.body) == REQUEST
    assert sent.header("authorization") == f"Bearer {CREDENTIAL}"
    assert sent.header("x-api-key") is None
    signed_in.see("error 401")


def test_a_body_that_is_not_json_is_not_sent(site: Site, signed_in: Visitor, call_id: int) -> None:
    signed_in.open(f"/traces/usage/{call_id}/replay")
    signed_in.fill("Body", '{"model": ')
    signed_in.see("This is not JSON")
    signed_in.fill("Upstream credential", CREDENTIAL)
    signed_in.click("Send")
    signed_in.see("The body is not JSON.")
    assert len(site.upstream.requests) == 1


def test_other_scripts_of_our_pages_cannot_use_an_endpoint(
    site: Site, signed_in: Visitor, call_id: int
) -> None:
    signed_in.open("/")
    told = signed_in.run_async(
        "const [target] = arguments;"
        "fetch(target, {method: 'POST', body: '{}', headers: {'x-api-key': 'k',"
        " 'x-taximeter-replay': '1.2'}}).then(async (r) => done([r.status, await r.text()]))",
        "/proxy/default/run/replay-1/v1/messages",
    )
    assert told[0] == 403
    assert "origin_refused" in told[1] or "TAXIMETER_ALLOWED_ORIGINS" in told[1]
    assert len(site.upstream.requests) == 1
