"""All that a page shows of a body, put together again, is what the body has: for every recorded exchange, and
for blocks of every kind."""

import html
import json
import re
from collections.abc import Iterator

import httpx2
import pytest

from dashboard import rendering
from dashboard.call.addresses import Address
from dashboard.call.bodies import describe_body
from dashboard.call.views import View, open_view
from store.traces.calls.call_reader import Call, CallReader, Side
from store.traces.database import TraceDatabase
from tests.dashboard.call.kinds import KINDS
from tests.recorded import CASES, RECORDED, needs_recorded
from tests.store.traffic import make_entry

# Ids, and what nobody can read, are in the JSON of a block alone.
IN_JSON = {
    "type", "id", "tool_use_id", "tool_id", "signature", "data", "cache_control", "media_type",
    "encrypted_content", "encrypted_index", "encrypted_stdout", "caller",
}  # fmt: skip
# Streams that break the protocol: the client library does something else with each.
ODD_STREAMS = {"sdkpy_incomplete_json", "vercel_spliced_message_start"}


@pytest.fixture
def shown(tmp_path):
    """Store bodies, and return their parts as pages show them."""
    readers = []

    def shown(*bodies: tuple[bytes | None, bytes | None]) -> list["Shown"]:
        path = tmp_path / "traces.db"
        with TraceDatabase(path) as traces:
            traces.insert(
                [make_entry(request_body=asked, response_body=said) for asked, said in bodies]
            )
        reader = CallReader.open(path)
        readers.append(reader)
        calls = [reader.find_call(number + 1) for number in range(len(bodies))]
        return [Shown(call, reader) for call in calls if call is not None]

    yield shown
    for reader in readers:
        reader.close()


class Shown:
    """The parts of one call."""

    def __init__(self, call: Call, reader: CallReader) -> None:
        self._call = call
        self._reader = reader

    def open(self, side: Side, **asked) -> tuple[View, str]:
        address = Address(usage_id=self._call.id, side=side, is_part=True, **asked)
        view = open_view(self._call, address, self._reader)
        assert view is not None
        body = describe_body(self._call, side)
        page = rendering.render(
            "trace_part.html",
            is_plain=False,
            call=self._call,
            body=body,
            view=view,
            asked=address,
        )
        return view, bytes(page.body).decode()

    def read_json(self, side: Side, place: str) -> object:
        """Return what stands at a place, from the text of its page."""
        _, page = self.open(side, view="json", place=place)
        return json.loads(text_of(page))

    def put_together(self, side: Side, page: str) -> dict[str, object]:
        """Return each block that a page shows, from its JSON where the page has an address for it, else
        from its text."""
        found: dict[str, object] = {}
        for place in re.findall(r'data-place="([^"]+)"', page):
            found[place] = self.read_json(side, place)
        return found


def text_of(markup: str) -> str:
    numbered = re.sub(r'<li value="(\d+)">', r"\1 ", markup)
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"</[^>]*>", " ", numbered)))


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text))


def leaves_of(value: object) -> Iterator[str]:
    """Yield the texts of a value that a reader is to see."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from leaves_of(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in IN_JSON:
                yield from leaves_of(each)


def assert_shown(page: str, content: object) -> None:
    seen = words_of(text_of(page))
    for leaf in leaves_of(content):
        # a tool of an MCP server is named as the server and the tool
        assert words_of(leaf.removeprefix("mcp__")) <= seen, leaf


@pytest.fixture
def read_by_library():
    """Return a function for the content that the client library makes of a recorded response."""
    import anthropic  # takes a second and a half, which is spared other tests

    bodies: list[bytes] = []

    def respond(_request):
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=bodies.pop()
        )

    def read(body: bytes) -> object:
        if body.lstrip().startswith(b"{"):
            return json.loads(body)["content"]
        bodies.append(body)
        with client.beta.messages.stream(model="m", max_tokens=1, messages=[]) as events:
            blocks = events.get_final_message().content
        return [
            block.model_dump(mode="json", exclude_unset=True, by_alias=True) for block in blocks
        ]

    http = httpx2.Client(transport=httpx2.MockTransport(respond))
    with anthropic.Anthropic(api_key="x", max_retries=0, http_client=http) as client:
        yield read


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


ANSWERED = [
    name for name, case in CASES.items() if case["status"] < 400 and "count_tokens" not in name
]


@needs_recorded
@pytest.mark.slow
def test_a_displayed_response_put_together_again_is_its_content(shown, read_by_library, subtests):
    bodies = [(None, (RECORDED / CASES[name]["response_file"]).read_bytes()) for name in ANSWERED]
    for name, (_, body), call in zip(ANSWERED, bodies, shown(*bodies), strict=True):
        with subtests.test(name):
            view, page = call.open("response", view="read")
            assert view.response is not None
            content = view.response.content
            if name not in ODD_STREAMS:
                assert without_nulls(content) == without_nulls(read_by_library(body))
            found = call.put_together("response", page)
            assert [found[str(number)] for number in range(len(content))] == content
            assert_shown(page, content)


@needs_recorded
def test_every_message_of_a_recorded_request_is_displayed(shown, subtests):
    files = {name: RECORDED / f"{name}.request.json" for name in ANSWERED}
    bodies = {name: file.read_bytes() for name, file in files.items() if file.exists()}
    # A text of 225 KB is not shown in full at once.
    bodies = {name: body for name, body in bodies.items() if len(body) < 100_000}
    calls = shown(*((body, None) for body in bodies.values()))
    for (name, body), call in zip(bodies.items(), calls, strict=True):
        with subtests.test(name):
            view, page = call.open("request", view="read")
            document = json.loads(body)
            assert len(view.messages or ()) == len(document["messages"])
            assert_shown(page, [message["content"] for message in document["messages"]])
            assert_shown(page, [document.get("system"), document.get("tools")])


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_block_is_displayed_whole(shown, name):
    content = KINDS[name]
    asked = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    said = json.dumps({"content": content}).encode()
    (call,) = shown((asked, said))
    for side in ("request", "response"):
        _, page = call.open(side, view="read")
        found = call.put_together(side, page)
        start = "0." if side == "request" else ""
        assert [found[f"{start}{number}"] for number in range(len(content))] == content
        assert_shown(page, content)
        for number, block in enumerate(content):
            _, alone = call.open(side, view="block", place=f"{start}{number}")
            assert_shown(alone, block)
