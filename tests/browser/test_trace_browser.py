"""Datasette's pages with the policy on: its menus, its editor and its facets work."""

from datetime import datetime

import pytest

from tests.browser.site import Site
from tests.live.messages import Answer, text
from tests.upstream import Script, SeenRequest

CALLS = 3
CALL = b'{"model": "claude-opus-5-5", "stream": true}'
SESSION = ("X-Claude-Code-Session-Id", "traced")


@pytest.fixture(scope="module", autouse=True)
def traced(site: Site) -> Site:
    """There are some calls to look at."""
    given = Answer(content=[text("Good day.")])

    def choose(request: SeenRequest) -> Script:
        return given.script(streamed=b'"stream"' in request.body)

    site.upstream.choose = choose
    for _ in range(CALLS):
        assert site.call(CALL, "default", SESSION).status == 200
    site.count_calls()
    return site


def open_column_menu(reader, column: str) -> None:
    """Press the cog in a column's heading; `table.js` of Datasette puts it there."""
    cog = f"th[data-column='{column}'] svg"
    reader.wait_for(lambda: reader.run("return document.querySelector(arguments[0])", cog))
    reader.run("return document.querySelector(arguments[0])", cog).click()


def test_a_column_can_be_sorted_and_counted_from_its_menu(reader):
    reader.open("/traces/usage?_col=service_tier&_facet=slug")
    open_column_menu(reader, "service_tier")
    reader.follow("Facet by this", "link")
    assert "_facet=service_tier" in reader.address
    reader.see("standard")
    open_column_menu(reader, "id")
    assert "Sort ascending" in reader.names("link")
    reader.follow("Sort ascending", "link")
    assert "_sort=id" in reader.address


def test_a_menu_closes_when_something_else_is_pressed(reader):
    reader.open("/traces/usage?_col=slug")
    open_column_menu(reader, "id")
    reader.wait_for(lambda: "Sort ascending" in reader.names("link"), "an open menu")
    reader.driver.find_element("css selector", "h1").click()
    reader.wait_for(lambda: "Sort ascending" not in reader.names("link"), "a closed menu")


def test_the_title_of_a_call_is_whole_in_a_result_on_a_phone(reader):
    reader.open(f"/traces?sql=select+'{'words+' * 16}'+as+title_text")
    reader.resize(390, 844)
    assert reader.faults() == []


def test_sql_is_written_in_the_editor_formatted_and_run(reader):
    reader.open("/traces?sql=select+1+as+one,+2+as+two")
    editor = reader.driver.find_element("css selector", ".CodeMirror")
    assert "select" in editor.text
    reader.click("Format SQL", "button")
    lines = "return document.querySelector('.CodeMirror').CodeMirror.lineCount()"
    reader.wait_for(lambda: reader.run(lines) > 1, "the SQL in several lines")
    reader.follow("Run SQL", "button")
    assert "select" in reader.address
    table = reader.driver.find_element("css selector", "table").text
    assert "one" in table
    assert "2" in table


def test_the_sql_of_a_canned_query_is_formatted_where_it_stands(reader):
    reader.open("/traces/cost_by_day_and_model")
    shown = "return document.querySelector('pre#sql-query')?.textContent ?? ''"
    before = reader.run(shown)
    if "Format SQL" in reader.names("button"):
        reader.click("Format SQL", "button")
        reader.wait_for(lambda: reader.run(shown) != before, "other SQL")
    reader.see("claude-opus-5-5")


def test_no_page_breaks_the_policy(reader):
    """A violation fails every test here; this one visits what `Example.pages` does not have."""
    for path in (
        "/traces/usage?_facet=model&_facet=slug",
        "/traces/usage_log?_sort_desc=cost_cents&model__contains=opus",
        "/traces/no_such_table",
    ):
        reader.open(path)
        assert reader.heading
        assert reader.violations() == [], path


def ways_to_write(instant: str) -> set[str]:
    """Return how pages may write a stored instant in UTC: whole, its day, its time of the day, or both."""
    stored = instant[:19].replace("T", " ")
    there = datetime.fromisoformat(stored)
    wholes = {f"{there:{day}}, {stored[11:]}" for day in ("%a %-d %b", "%a %-d %b %Y")}
    day, time = f"{there:%a %-d}", stored[11:16]
    return {stored, stored[:10], day, time, f"{day} {time}", *wholes}


def test_times_are_utc_wherever_the_reader_is(reader):
    reader.live_in("Asia/Kolkata")
    script = "return [...document.querySelectorAll('time')].map((t) => [t.dateTime, t.textContent, t.title])"
    for path in ("/", "/traces/usage", "/calls/1"):
        reader.open(path)
        reader.see("UTC")
        times = reader.run(script)
        assert times, path
        for instant, shown, title in times:
            assert shown.removesuffix(" UTC") in ways_to_write(instant), path
            assert title.startswith("Your time: ")
