"""The keys of a session's page: they go through what is folded, and say where nothing more is."""

import pytest

from tests.browser.example_calls import SESSION

_HERE = "return document.querySelector('.here')?.textContent ?? ''"
_SAID = "return document.getElementById('said').textContent"
_FAILED = "return document.querySelectorAll('.line.failed, .event.bad').length"
_SEEN = "return document.querySelector('.here').getClientRects().length > 0"


@pytest.fixture(scope="module")
def is_drawn() -> bool:
    return True


def test_n_goes_round_all_that_failed_and_opens_what_it_is_in(rosa, example):
    rosa.open(f"/sessions/{SESSION}")
    count = rosa.run(_FAILED)
    stops = []
    for _ in range(count):
        rosa.press("n")
        stops.append(rosa.run(_HERE))
        assert rosa.run(_SEEN)
        assert rosa.run(_SAID) == ""
    assert len(set(stops)) == count
    rosa.press("n")
    assert rosa.run(_HERE) == stops[0], "after the last one comes the first"


def test_the_other_keys_say_where_a_session_begins_and_ends(rosa, example):
    rosa.open(f"/sessions/{example.unnamed}")
    rosa.press("b")
    assert rosa.run(_SAID) == "No cache break"
    rosa.press("j")
    rosa.press("k")
    assert rosa.run(_SAID) == "No earlier turn"
    for _ in range(rosa.run("return document.querySelectorAll('.line[data-turn]').length")):
        rosa.press("j")
    assert rosa.run(_SAID) == "No further turn"


def test_o_unfolds_a_turn_where_it_stands(rosa, example):
    rosa.open(f"/sessions/{SESSION}")
    while not rosa.run("return document.querySelector('.here')?.matches('.line[data-call]')"):
        rosa.press("j")
    rosa.press("o")
    rosa.see("Open call")
    rosa.press("o")
    assert rosa.run("return document.querySelectorAll('.turn-body').length") == 0


def test_unfolded_turn_looks_like_the_page_of_its_call(rosa, example):
    rosa.open(f"/sessions/{SESSION}")
    while not rosa.run(
        "return document.querySelector('.here')?.matches('.line[data-call]:not(.text)')"
    ):
        rosa.press("j")
    rosa.press("o")
    rosa.see("Open call")
    style = "return getComputedStyle(document.querySelector('.turn-body .kind')).fontWeight"
    assert rosa.run(style) == "600"
    rosa.run("document.querySelector('.turn-body details.json').open = true")
    rosa.see('"type": "tool_use"')


def test_unfold_all_opens_every_fold_and_subagent(rosa, example):
    rosa.open(f"/sessions/{SESSION}")
    rosa.click("Unfold all", "button")
    assert rosa.run("return document.querySelectorAll('.story details:not([open])').length") == 0
    rosa.click("Fold all", "button")
    assert rosa.run("return document.querySelectorAll('.story details[open]').length") == 0


def test_dragging_along_the_map_scrolls_the_story_and_reads_it_out(rosa, example):
    rosa.resize(1280, 500)
    rosa.open(f"/sessions/{SESSION}")
    left, top, width = rosa.run(
        "const box = document.querySelector('#map svg[data-turns]').getBoundingClientRect();"
        " return [box.left, box.top + 50, box.width].map(Math.round)"
    )
    seen = []
    for kind, place in (
        ("mousePressed", 1),
        ("mouseMoved", 8),
        ("mouseMoved", 12),
        ("mouseMoved", 16),
    ):
        x = left + width * place // 20
        at = {"x": x, "y": top, "button": "left", "buttons": 1, "clickCount": 1}
        rosa.cdp("Input.dispatchMouseEvent", type=kind, **at)
        seen.append(rosa.run("return [scrollY, document.querySelector('#map output').textContent]"))
    rosa.cdp("Input.dispatchMouseEvent", type="mouseReleased", **(at | {"buttons": 0}))
    rosa.resize(1280, 900)
    places = [place for place, _ in seen]
    assert places == sorted(set(places))
    assert [words.partition(" \N{MIDDLE DOT}")[0] for _, words in seen[1:]] == [
        "Turn 6",
        "Turn 8",
        "Turn 11",
    ]
