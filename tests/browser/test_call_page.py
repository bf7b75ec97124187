"""The page of a call in a browser: what is new, what opens, images, and that nothing leaves the page."""

import base64
import json
from uuid import uuid4

import pytest

from tests.browser.looks import assert_fit, unfold, unfold_part
from tests.browser.site import Site
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


@pytest.fixture(scope="module")
def is_drawn() -> bool:
    return True


@pytest.fixture(scope="module")
def address(site: Site) -> str:
    """The address of the second of two calls."""
    site.upstream.choose = lambda _request: ANSWER.script(streamed=True)
    calls = site.count_calls()
    session = ("X-Claude-Code-Session-Id", uuid4().hex)  # not that of a call of another test
    for messages in (FIRST, SECOND):
        body = {
            "model": "claude-opus-5-5",
            "stream": True,
            "system": "Be kind.",
            "messages": messages,
        }
        assert site.call(json.dumps(body).encode(), "default", session).status == 200
    assert site.count_calls() == calls + 2
    return f"/calls/{site.find_newest_call()}"


PART = '.folded[data-part*="/%s"]'


def test_what_is_new_is_seen_and_the_rest_opens_where_it_stands(reader, address):
    reader.open(address)
    assert "New in this call" in reader.text
    for words in ("It is mended.", "rate = 2", "make test", "Done."):
        reader.see(words)
    new = reader.run("return document.querySelector('#new').parentElement.innerText")
    for words in ("Mend the meter.", "Be kind.", "The rate is wrong.", "toolu_edit"):
        assert words not in new
    unfold_part(reader, PART % "messages")
    earlier = "return document.querySelector('.messages').innerText"
    reader.wait_for(lambda: "Mend the meter." in reader.run(earlier), "the message")
    unfold_part(reader, PART % "front")
    reader.see("Be kind.")
    reader.run("document.querySelector('.thinking summary').click()")
    reader.see("The rate is wrong.")
    reader.run("document.querySelector('.call .json summary').click()")
    reader.see("toolu_edit")


def test_keys_are_told_where_scripts_run(reader, address):
    reader.open(address)
    reader.see("turn before, after")
    cut = "const r = document.querySelector('.rail'); return r.scrollHeight - r.clientHeight"
    assert reader.run(cut) == 0, "the hints at its foot are in view"
    assert '<section class="keys soft" hidden>' in reader.source


def test_a_part_that_could_not_be_loaded_is_loaded_when_it_is_unfolded_again(reader, address):
    reader.open(address)
    reader.run(
        "const real = window.fetch;"
        " window.fetch = () => { window.fetch = real; return Promise.reject(new Error('busy')); }"
    )
    reader.run("document.querySelector(arguments[0]).click()", f"{PART % 'front'} > summary")
    reader.see("It could not be loaded.")
    unfold(reader)
    reader.see("Be kind.")
    assert "could not be loaded" not in reader.text


def test_an_image_of_the_body_is_shown_and_nothing_comes_from_elsewhere(reader, address):
    reader.open(address)
    sizes = "return [...document.images].map((i) => [i.complete, i.naturalWidth, i.naturalHeight])"
    reader.wait_for(lambda: reader.run(sizes) == [[True, 40, 20]], "the image")
    assert f"{ELSEWHERE}/far.png" in reader.text
    fetched = reader.run("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert fetched
    assert all(name.startswith(reader.base_url) for name in fetched)


def test_nothing_stands_in_the_way_of_a_reader(reader, address):
    wide = "return document.documentElement.scrollWidth > innerWidth ? ['too wide'] : []"
    assert_fit(reader, {"call": address}, find_more=lambda _name, _width: reader.run(wide))
