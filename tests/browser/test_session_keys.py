"""The keys of a session's page: they stop where something is, and say where nothing more is."""

from tests.browser.example_calls import SESSION

_HERE = "return document.activeElement.closest('.turn')?.textContent ?? ''"
_SAID = "return document.querySelector('[role=status].no-further').textContent"
_FAILED = "return document.querySelectorAll('.turn[data-failed]').length"


def test_n_stops_at_calls_and_tools_that_failed_and_says_when_there_is_no_further_one(
    rosa, example
):
    rosa.open(f"/sessions/{SESSION}")
    stops = []
    for _ in range(rosa.run(_FAILED)):
        rosa.press("n")
        stops.append(rosa.run(_HERE))
        assert rosa.run(_SAID) == ""
    assert all("error" in stop or "failed" in stop for stop in stops), stops
    assert any("Bash failed" in stop and "error" not in stop for stop in stops)
    rosa.press("n")
    assert rosa.run(_SAID) == "No further failed turn"
    assert rosa.run(_HERE) == stops[-1], "the focus stays where it was"
    rosa.press("k")
    assert rosa.run(_SAID) == ""
    assert rosa.run(_HERE) != stops[-1]


def test_the_other_keys_say_where_a_session_begins_and_ends(rosa, example):
    rosa.open(f"/sessions/{example.unnamed}")
    rosa.press("b")
    assert rosa.run(_SAID) == "No further cache break"
    rosa.press("k")
    rosa.press("k")
    assert rosa.run(_SAID) == "No earlier turn"
    for _ in range(rosa.run("return document.querySelectorAll('.turn').length")):
        rosa.press("j")
    assert rosa.run(_SAID) == "No further turn"
