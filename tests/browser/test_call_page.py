"""The page of a call in a browser: what is new, what opens, images, and that nothing leaves the page."""

import base64
import json
from uuid import uuid4

import pytest

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.live.messages import Answer, text, tool_use
from tests.store.traffic import png

ELSEWHERE = "https://elsewhere.example"
ANSWER = Answer(
    content=[
        text(f"**Done.** ![a cat]({ELSEWHERE}/cat.png) [docs]({ELSEWHERE}/docs)\n\n```python\nx = 1\n```"),
        tool_use("Bash", {"command": "make test"}),
    ]
)  # fmt: skip
FIRST = [{"role": "user", "content": "Mend the meter."}]
PICTURE = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(png(40, 20)).decode(),
    },
}
FAR = {"type": "image", "source": {"type": "url", "url": f"{ELSEWHERE}/far.png"}}
EDIT = {
    "file_path": "/meter.py",
    "old_string": "rate = 1\nstop()",
    "new_string": "rate = 2\nstop()",
}
SECOND = [
    *FIRST,
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "The rate is wrong.", "signature": "c2ln"},
            {"type": "tool_use", "id": "toolu_edit", "name": "Edit", "input": EDIT},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_edit",
                "content": [{"type": "text", "text": "It is mended."}, PICTURE, FAR],
            }
        ],
    },
]


@pytest.fixture
def reader(site: Site, signed_in: Visitor) -> Visitor:
    """On the page of the second of two calls."""
    site.upstream.choose = lambda _request: ANSWER.script(streamed=True)
    calls = site.count_calls()
    session = uuid4().hex  # or the call before would be one of another test
    for messages in (FIRST, SECOND):
        body = {
            "model": "claude-opus-5-5",
            "stream": True,
            "system": "Be kind.",
            "messages": messages,
        }
        assert (
            site.call(
                json.dumps(body).encode(), "default", ("X-Claude-Code-Session-Id", session)
            ).status
            == 200
        )
    assert site.count_calls() == calls + 2
    signed_in.open(f"/traces/usage?session_id={session}&_sort_desc=id")
    with signed_in.page_change():
        signed_in.run("return document.querySelector('table.calls td a')").click()
    return signed_in


def test_what_is_new_is_seen_and_the_rest_opens_where_it_stands(reader):
    assert "New in this call" in reader.text
    for words in ("It is mended.", "rate = 2", "make test", "Done."):
        reader.see(words)
    new = reader.run("return document.querySelector('#new').parentElement.innerText")
    for words in ("Mend the meter.", "Be kind.", "The rate is wrong.", "toolu_edit"):
        assert words not in new
    reader.click("1 earlier message", "menu")
    earlier = "return document.querySelector('.messages').innerText"
    reader.wait_for(lambda: "Mend the meter." in reader.run(earlier), "the message")
    reader.click("System prompt, settings", "menu")
    reader.see("Be kind.")
    reader.run("document.querySelector('.thinking summary').click()")
    reader.see("The rate is wrong.")
    reader.run("document.querySelector('.call .json summary').click()")
    reader.see("toolu_edit")


def test_a_result_is_beside_its_call_and_a_change_has_its_lines(reader):
    beside = "return document.querySelector('[data-place=\"1.1\"] .result').textContent"
    assert "It is mended." in reader.run(beside)
    lines = "return [...document.querySelectorAll('.diff span')].map((e) => [e.className, e.textContent.trim()])"
    assert reader.run(lines) == [
        ["removed", "- rate = 1"],
        ["added", "+ rate = 2"],
        ["same", "stop()"],
    ]


def test_an_image_of_the_body_is_shown_and_nothing_comes_from_elsewhere(reader):
    sizes = "return [...document.images].map((i) => [i.complete, i.naturalWidth, i.naturalHeight])"
    reader.wait_for(lambda: reader.run(sizes) == [[True, 40, 20]], "the image")
    assert f"{ELSEWHERE}/far.png" in reader.text
    fetched = reader.run("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert fetched
    assert all(name.startswith(reader.base_url) for name in fetched)


@pytest.mark.parametrize("size", [(1280, 900), (360, 740)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_the_way_of_a_reader(reader, size, scheme):
    reader.resize(*size)
    reader.prefer(scheme)
    reader.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    reader.wait_for(
        lambda: not reader.run("return document.querySelector('.later[aria-busy]')"), "all parts"
    )
    assert reader.faults() == []
    wide = "return document.documentElement.scrollWidth > innerWidth"
    assert not reader.run(wide)
