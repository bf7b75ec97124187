"""The list of calls in a browser: how much of it is on a screen, and what of it can be read."""

import re
from itertools import pairwise

HEIGHT, ROW, ROWS = 900, 28, 22
_ROWS = """
return [...document.querySelectorAll("table.calls tbody tr")].map((row) => {
  const place = row.getBoundingClientRect();
  return [place.height, place.bottom, squeeze(row.querySelector(".cell").textContent)];
});
"""
_CUT_OFF = """
return [...document.querySelectorAll("tr.failed .cell > .bad:first-child")]
  .filter((each) => each.scrollWidth > each.clientWidth + 1 ||
    each.getBoundingClientRect().right > each.closest("td").getBoundingClientRect().right + 1)
  .map((each) => each.textContent);
"""


def test_rows_are_low_and_no_two_in_a_row_say_the_same(rosa):
    rosa.resize(1280, HEIGHT)
    rosa.open("/calls?period=30d")
    rows = rosa.run(_ROWS)
    assert {height for height, *_ in rows} == {ROW}
    assert sum(bottom <= HEIGHT for _, bottom, _ in rows) >= ROWS
    said = [words for *_, words in rows]
    assert not any(one == other for one, other in pairwise(said))


def test_the_type_of_an_error_is_whole_on_a_phone(rosa):
    rosa.resize(390, 844)
    for address in (
        "/calls?period=30d",
        "/calls?period=30d&by=session",
        "/calls?period=30d&failed=1",
    ):
        rosa.open(address)
        assert rosa.run("return document.querySelectorAll('tr.failed').length") >= 4
        assert rosa.run(_CUT_OFF) == [], address


def test_two_calls_are_ticked_and_compared_by_keyboard(rosa, example):
    rosa.resize(1280, HEIGHT)
    rosa.open("/calls?period=30d")
    for key in "jxjjx":
        rosa.press(key)
    ids = rosa.run(
        "return [...document.querySelectorAll('.tick:checked')].map((each) => each.value)"
    )
    rows = rosa.run(
        "return [...document.querySelectorAll('tr[data-key]')].map((row) => row.dataset.key)"
    )
    assert ids == [rows[0], rows[2]]
    with rosa.page_change():
        rosa.press("c")
    assert sorted(map(int, re.findall(r"\d+", rosa.path))) == sorted(map(int, ids))
    rosa.back()
    rosa.press("j")
    with rosa.page_change():
        rosa.press("\ue007")
    assert rosa.path.startswith("/calls/")
