"""Blocks by their kinds: what form each has, and that none is too large or too hostile."""

import json
import re
import time

import pytest

from dashboard.call.blocks.edits import compare_lines
from dashboard.call.blocks.reading import read_block
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Diff, Facts, Picture, Sources, Tasks, Text
from dashboard.call.excerpts import Allowance
from tests.dashboard.call.kinds import call, result, text
from tests.dashboard.pages import Page, find_address
from wire.block import Block


def read(item, **fields):
    room = Room(allowance=Allowance(1_000_000), address="/traces/usage/1/request", **fields)
    return read_block(item, room, "0.0")


def pieces_of(item, kind):
    return [piece for piece in read(item).pieces if isinstance(piece, kind)]


# -- tools ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Bash", "bash_code_execution", "run_terminal_cmd", "mcp__x__shell"]
)
def test_a_command_is_a_command(name):
    (command,) = pieces_of(call(name, command="ls -la", timeout=5), Text)
    assert (command.style, command.text) == ("command", "ls -la")
    (facts,) = pieces_of(call(name, command="ls -la", timeout=5), Facts)
    assert facts.items == (("timeout", "5"),)


def test_an_edit_is_a_difference_of_lines():
    (diff,) = pieces_of(call("Edit", path="/a", old_string="a\nb\nc", new_string="a\nB\nc"), Diff)
    assert diff.lines == ((" ", "a"), ("-", "b"), ("+", "B"), (" ", "c"))


def test_several_edits_are_several_differences():
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]
    found = pieces_of(call("MultiEdit", file_path="/a", edits=edits), Diff)
    assert [(diff.label, diff.lines) for diff in found] == [
        ("Edit 1", (("-", "a"), ("+", "b"))),
        ("Edit 2", (("-", "c"),)),
    ]


def test_a_written_file_is_added_lines():
    (diff,) = pieces_of(call("Write", file_path="/a", content="one\ntwo\n"), Diff)
    assert diff.lines == (("+", "one"), ("+", "two"))


def test_a_large_edit_is_compared_in_little_time():
    old = [f"line {number}" for number in range(20_000)]
    began_s = time.process_time()
    lines = compare_lines(old, old[::-1])
    assert time.process_time() - began_s < 1
    assert [line for sign, line in lines if sign == "-"] == old
    assert [line for sign, line in lines if sign == "+"] == old[::-1]


def test_a_to_do_list_is_a_list():
    todos = [
        {"content": "Read", "status": "completed", "activeForm": "Reading"},
        {"content": "Write", "status": "pending"},
    ]
    (tasks,) = pieces_of(call("TodoWrite", todos=todos), Tasks)
    assert tasks.items == (("completed", "Read", "activeForm: Reading"), ("pending", "Write", ""))


@pytest.mark.parametrize(
    "given",
    [
        {"todos": ["odd"]},
        {"edits": [{"old_string": 5}]},
        {"old_string": "a", "new_string": 5},
        {"command": {"not": "text"}},
        {"file_path": "/a", "content": 5},
        {"todos": []},
        {"edits": []},
    ],
)
def test_an_input_of_another_shape_is_shown_by_its_fields(given):
    for name in ("Bash", "Edit", "TodoWrite"):
        block = read(call(name, **given))
        shown = json.dumps([str(piece) for piece in block.pieces])
        assert all(key in shown for key in given)


def test_a_file_that_was_read_has_the_colours_of_its_language():
    calls = {"toolu_1": Block({"name": "Read", "input": {"file_path": "/a.py"}})}
    (output,) = read(result("import os\n"), calls=calls).pieces
    assert isinstance(output, Text)
    assert "hl-keyword" in str(output.markup)


def test_found_sources_are_a_list_with_addresses_that_can_be_followed():
    found = [
        {
            "type": "web_search_result",
            "title": "A",
            "url": "https://a.example",
            "page_age": "1 day",
        },
        {"type": "web_search_result", "title": "B", "url": "javascript:alert(1)"},
    ]
    (sources,) = read(result(found) | {"type": "web_search_tool_result"}).pieces
    assert isinstance(sources, Sources)
    assert [(each.title, each.address, each.notes) for each in sources.items] == [
        ("A", "https://a.example", ("page age 1 day",)),
        ("B", "", ()),
    ]


# -- limits --------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_and_a_longer_one_is_no_markdown():
    (cut,) = read(text("**a** " + "words " * 9_999)).pieces
    assert isinstance(cut, Text)
    assert (len(cut.text), cut.left_out, cut.markup is None) == (50_000, 10_000, False)
    (long,) = read(text("**a** " + "words " * 19_999)).pieces
    assert isinstance(long, Text)
    assert (len(long.text), long.left_out, long.markup) == (50_000, 70_000, None)


def test_an_image_beyond_the_limit_is_a_download():
    for chars, is_shown in ((1_000, True), (9 << 20, False)):
        data = ("iVBORw0KGgoAAAANSUhEUgAA" + "A" * chars)[:chars]
        source = {"type": "base64", "media_type": "image/png", "data": data}
        shown = read({"type": "image", "source": source}).pieces
        assert isinstance(shown[0], Picture) == is_shown


# -- markup --------------------------------------------------------------------------------------------

MARKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</pre></details></main><b>",
    "[a](javascript:alert(1)) ![b](https://elsewhere.example/x.png)",
    "\u202egnp.exe\u200b",
    '```"><script>\nx\n```',
    "{{ 7 * 7 }}",
)
ALLOWED_LINK = re.compile(r"/|#|https://elsewhere\.example/x\.png$")


def marked(mark):
    """Return blocks in which every text is a mark."""
    sources = [{"type": "web_search_result", "title": mark, "url": f"https://e.example/{mark}"}]
    return [
        text(mark, citations=[{"type": mark, "cited_text": mark, "title": mark, "url": mark}]),
        {"type": "thinking", "thinking": mark, "signature": mark},
        call("Bash", command=mark, description=mark),
        call("Edit", file_path=mark, old_string=mark, new_string=f"{mark}\n{mark}"),
        call("TodoWrite", todos=[{"content": mark, "status": mark, mark: mark}]),
        call(mark, **{mark: mark, "long": mark * 50, "list": [mark]}),
        result(mark),
        result(sources) | {"type": "web_search_tool_result"},
        result({"type": mark, "stdout": mark * 40}) | {"type": "code_execution_tool_result"},
        {"type": "image", "source": {"type": "base64", "media_type": mark, "data": mark}},
        {"type": "document", "title": mark, "source": {"type": "text", "data": mark}},
        {"type": "compaction", "content": mark},
        {"type": "fallback", "from": {"model": mark}, "to": {"model": mark}},
        {"type": mark, mark: mark},
    ]


@pytest.mark.parametrize("mark", MARKS)
async def test_markup_in_any_block_stays_text(client, ann, mark):
    blocks = marked(mark)
    message = {"messages": [{"role": "user", "content": blocks}], "system": mark}
    ann.record(
        request_body=json.dumps(message).encode(),
        response_body=json.dumps({"content": blocks}).encode(),
    )
    paths = ["", "/request/read", "/request/front/part"]
    paths += [f"/request/block/0.{n}/part" for n in range(len(blocks))]
    paths += ["/request/json/0.0", "/request/json/0.5"]  # as text, of whatever kind a block is
    for path in paths:
        answer = await client.get(find_address(1, path), headers=ann.cookie)
        assert answer.status_code == 200
        assert not set(answer.text) & set("\u202e\u200b")
        page = Page(answer.text)
        assert not [each for each in page.elements if each.tag in ("svg", "iframe", "style", "base")
                    and not each.is_within("header") and not each.has_class("bar")]  # fmt: skip
        assert all(
            each.attributes.get("src", "").startswith("/static/") for each in page.find("script")
        )
        assert all(each.attributes["src"].startswith("/traces/") for each in page.find("img"))
        for element in page.elements:
            assert not [name for name in element.attributes if name.startswith("on")]
        for link in page.find("a"):
            address = link.attributes["href"]
            assert re.match(r"/(?!/)|#|https://e(lsewhere)?\.example/", address), address
            if address.startswith("https:"):
                assert "noreferrer" in link.attributes["rel"]
