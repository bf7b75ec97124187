"""Pages of other sites and the proxy: which of them may call it, and what they get."""

from collections.abc import Iterator

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.browser.elsewhere import Place, has_sdk
from tests.browser.visitor import Visitor, lend, new_visitor
from tests.live.messages import API_HEADERS, MODEL, REQUEST_ID, Answer, stream_of, text
from tests.live.service import API_KEY
from tests.upstream import Gate, answer, error_json, message_json, sse

REPLY = Answer(content=[text("It is 12 € to “Châtelet”. 🚕")])
CALL = """
const [url, options] = arguments;
fetch(url, options).then(
  async (r) => done([r.status, await r.text(), Object.fromEntries(r.headers)]),
  (error) => done(String(error)));
"""
STREAM = """
const [url, options] = arguments;
(async () => {
  const response = await fetch(url, options);
  const reader = response.body.getReader(), decoder = new TextDecoder();
  window.pieces = [];
  for (;;) {
    const {done: ended, value} = await reader.read();
    if (ended) break;
    window.pieces.push(decoder.decode(value, {stream: true}));
  }
  window.ended = true;
})();
"""
SDK = """
const [baseURL, apiKey, model] = arguments;
(async () => {
  const {default: Anthropic} = await import('@anthropic-ai/sdk');
  const client = new Anthropic({baseURL, apiKey, maxRetries: 0, dangerouslyAllowBrowser: true});
  const question = {model, max_tokens: 100, messages: [{role: 'user', content: 'How much is it?'}]};
  const texts = [];
  const running = client.messages.stream(question).on('text', (t) => texts.push(t));
  const message = await running.finalMessage();
  let failure;
  try { await client.messages.create(question); } catch (e) {
    failure = [e.status, e.type, e.requestID, e.headers?.get('retry-after'), e.message];
  }
  done({text: texts.join(''), message, requestID: running.request_id, failure});
})().catch((error) => done(String(error.stack)));
"""


@pytest.fixture
def place(running_place: Place) -> Place:
    running_place.endpoint.upstream.reset()
    return running_place


@pytest.fixture(scope="module")
def visitor(driver: WebDriver, running_place: Place) -> Iterator[Visitor]:
    with new_visitor(driver, f"http://{running_place.service.host}") as visitor:
        yield visitor


@pytest.fixture
def page(visitor: Visitor) -> Iterator[Visitor]:
    with lend(visitor):
        yield visitor


def post(**more: object) -> dict[str, object]:
    return {"method": "POST", "body": '{"model":"m","messages":[]}', **more}


KEY_HEADERS = {"x-api-key": API_KEY, "content-type": "application/json"}


FROM_ANOTHER_ORIGIN: list[dict[str, object]] = [
    post(mode="no-cors"),
    post(headers={"content-type": "text/plain"}),
    post(headers=KEY_HEADERS),
    {"mode": "no-cors"},
    {"referrerPolicy": "no-referrer"},
]
FROM_A_REBOUND_NAME: list[dict[str, object]] = [
    post(headers=KEY_HEADERS),
    post(referrerPolicy="no-referrer"),
    {"headers": KEY_HEADERS},
    {"referrerPolicy": "no-referrer"},
]


def test_a_page_of_another_origin_reaches_nothing(page: Visitor, place: Place) -> None:
    page.open(place.other)
    before = len(place.endpoint.rows())
    for options in FROM_ANOTHER_ORIGIN:
        outcome = page.run_async(CALL, place.url(), options)
        if options.get("mode") == "no-cors":
            assert outcome[:2] == [0, ""], "opaque"
        else:
            assert "Failed to fetch" in outcome, options
    page.errors()
    assert place.endpoint.upstream.requests == []
    assert len(place.endpoint.rows()) == before


def test_a_page_at_a_rebound_name_reaches_nothing(page: Visitor, place: Place) -> None:
    """Its name was the attacker's server when the page was loaded, and is ours now."""
    page.open(f"http://rebound.test:{place.service.address[1]}/livez")
    for options in FROM_A_REBOUND_NAME:
        status, body, _ = page.run_async(CALL, place.endpoint.target(), options)
        assert (status, "permission_error" in body) == (403, True), options
    assert place.endpoint.upstream.requests == []


def test_nobody_navigates_to_what_the_upstream_says(page: Visitor, place: Place) -> None:
    html = answer(
        200, b"<script>document.title = 'Ours now'</script>", [("content-type", "text/html")]
    )
    place.endpoint.upstream.otherwise = html
    for path in ("/v1/models", "/v1/messages"):
        for start in (None, place.other, place.listed):
            if start is None:
                page.open(place.url(path))
            else:
                page.open(start)
                with page.page_change():
                    page.run("location.href = arguments[0]", place.url(path))
            assert "navigation_refused" not in page.title
            assert "permission_error" in page.text
    assert place.endpoint.upstream.requests == []


def test_a_page_of_a_listed_origin_reads_a_stream_as_it_comes(page: Visitor, place: Place) -> None:
    first, second = b"event: a\ndata: 1\n\n", b"event: b\ndata: 2\n\n"
    gate = Gate()
    place.endpoint.upstream.enqueue(sse([first, gate, second]))
    page.open(place.listed)
    page.run(STREAM, place.url(), post(headers=KEY_HEADERS))
    page.wait_for(lambda: page.run("return window.pieces?.join('')") == first.decode())
    gate.open()
    page.wait_for(lambda: page.run("return window.ended"))
    assert page.run("return window.pieces.join('')") == (first + second).decode()


def test_what_a_listed_page_gets_does_nothing_to_our_origin(page: Visitor, place: Place) -> None:
    acting = [
        ("content-type", "text/html"),
        ("set-cookie", "session=stolen; path=/"),
        ("clear-site-data", '"cookies"'),
        ("service-worker-allowed", "/"),
        ("location", "https://elsewhere.test/"),
        ("request-id", "req_1"),
    ]
    place.endpoint.upstream.enqueue(answer(200, message_json(), acting))
    page.open(place.listed)
    page.set_cookie("ours", "1")
    options = post(headers=KEY_HEADERS, credentials="same-origin")
    status, body, headers = page.run_async(CALL, place.url(), options)
    assert (status, body.encode(), headers["request-id"]) == (200, message_json(), "req_1")
    assert headers["content-security-policy"] == "sandbox"
    assert headers["x-content-type-options"] == "nosniff"
    assert not set(headers) & {"clear-site-data", "service-worker-allowed", "location"}
    page.open("/sign-in")
    assert "session" not in page.cookies()
    assert "ours" in page.cookies()
    [seen] = place.endpoint.upstream.requests
    assert seen.header_values("origin") == []


@pytest.mark.skipif(
    not has_sdk(),
    reason="there is no TypeScript SDK; tests/live/node/install.sh installs it with npm",
)
def test_the_typescript_sdk_works_in_a_page_of_a_listed_origin(page: Visitor, place: Place) -> None:
    upstream = place.endpoint.upstream
    overloaded = [("content-type", "application/json"), ("retry-after", "7"), ("request-id", "r9")]
    upstream.enqueue(
        stream_of(REPLY.events()),
        answer(429, error_json("rate_limit_error", "Slow down."), overloaded),
    )
    page.open(place.listed)
    before = len(place.endpoint.rows())
    told = page.run_async(SDK, place.url(""), API_KEY, MODEL)
    page.errors()  # the browser also writes the 429 into its console
    assert isinstance(told, dict), told
    assert told["text"] == REPLY.content[0]["text"]
    assert told["message"]["content"] == list(REPLY.content)
    assert told["requestID"] == REQUEST_ID == dict(API_HEADERS)["request-id"]
    status, kind, request_id, retry_after, message = told["failure"]
    assert (status, kind, request_id, retry_after) == (429, "rate_limit_error", "r9", "7")
    assert "Slow down." in message
    call, refused = place.endpoint.rows()[before:]
    assert (call["outcome"], call["output_tokens"]) == ("complete", REPLY.counts.output)
    assert refused["status_code"] == 429
    assert upstream.requests[0].header("anthropic-dangerous-direct-browser-access") == "true"
    assert API_KEY.encode() in upstream.requests[0].head
