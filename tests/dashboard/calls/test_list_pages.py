"""The list of calls as the web process serves it."""

import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from html import unescape

import pytest

from dashboard.calls.list_pages import PAGE_LIMIT
from metering.tool_results import ToolResult
from metering.tool_uses import ToolUse
from runtime import clock
from store import database
from store.annotation_rules import Subject
from store.traces import annotations
from store.traces.calls import bounded_counts, listed_calls
from store.traces.database import TraceDatabase
from tests.dashboard.pages import Page, words_of

FAILED = {
    "outcome": "upstream_error",
    "status_code": 529,
    "error_type": "overloaded_error",
    "title_text": "Ticket 31",
    "cost_cents": 0,
    "cost_items": (),
}


def record(person, *entries, **fields):
    """Record calls that arrive now."""
    for entry in entries:
        person.record({"created_at": clock.format_ms(clock.now()), **entry}, **fields)


def ids_of(text):
    return [
        int(e.attributes["data-key"]) for e in Page(text).find("tr") if "data-key" in e.attributes
    ]


def main_of(text):
    return words_of(text.partition("<main")[2])


def test_calls_are_listed_newest_first_with_their_sums(ann):
    record(ann, {"said_text": "One."}, FAILED, {"said_text": "<b>Three.</b>"})
    page = ann.get("/calls").text
    assert ids_of(page) == [3, 2, 1]
    seen = main_of(page)
    assert "Calls 3 in 7 days · $0.03 · 1 failed" in seen
    assert "Answer “<b>Three.</b>”" in seen
    assert "✕ 529 overloaded_error Ticket 31" in seen
    costs = [row.text.rpartition("$")[2].split()[0] for row in Page(page).find("tr", "failed")]
    assert costs[0].startswith("0"), "a call that is not billed has a cost"
    assert 'href="/calls/3"' in page


def test_filters_are_chips_that_can_be_taken_away(ann):
    record(ann, {"model": "claude-a"}, {"model": "claude-b"}, FAILED | {"model": "claude-b"})
    page = ann.get("/calls?model=claude-b").text
    assert ids_of(page) == [3, 2]
    assert "Calls 2 in 7 days" in main_of(page)
    (removed,) = [a.attributes["href"] for a in Page(page).find("a", "x")]
    assert ids_of(ann.get(removed).text) == [3, 2, 1]
    page = ann.get("/calls?failed=1").text
    assert ids_of(page) == [3]
    assert "Calls 1 failed in 7 days" in main_of(page)


def read_presets(text):
    return [a.text for a in Page(text).find("a", "tag") if "/calls?" in a.attributes["href"]]


def fail(problem="exit 1"):
    return {"tool_uses": (ToolUse(tool="Bash", result=ToolResult(1, problem)),)}


def test_filters_that_are_used_most_have_counts(ann):
    old = {"created_at": "2020-01-02T03:04:05.000Z"}
    record(ann, FAILED, fail(), fail(), fail(None), {"cost_cents": Decimal("10.0")}, old | fail())
    assert read_presets(ann.get("/calls").text) == [
        "Failed 1",
        "A tool failed 2",
        "$0.10 or more 1",
    ]
    assert read_presets(ann.get("/calls?period=all").text) == [
        "Failed 1", "A tool failed 3", "$0.10 or more 1",
    ]  # fmt: skip
    assert read_presets(ann.get("/calls?tool=Bash").text) == ["A tool failed 2"]


def test_each_count_is_that_of_its_list(ann):
    record(ann, FAILED, fail(), fail(), {"cost_cents": Decimal(20)} | fail())
    for address in ("/calls", "/calls?tool=Bash", "/calls?endpoint=default&period=all"):
        page = ann.get(address).text
        presets = [a for a in Page(page).find("a", "tag") if "/calls?" in a.attributes["href"]]
        assert presets
        for each in presets:
            listed = ids_of(ann.get(each.attributes["href"]).text)
            assert each.text.endswith(f" {len(listed)}")


def test_what_is_too_much_to_count_has_no_count_and_says_why(ann, monkeypatch):
    for name in ("READ", "LOOKED_UP"):
        monkeypatch.setattr(bounded_counts, name, 10)
    record(ann, FAILED, fail())
    page = ann.get("/calls").text
    assert read_presets(page) == [
        "Failed 1", "A tool failed —", "Broke the cache —", "$0.10 or more —",
    ]  # fmt: skip
    assert 'title="Not counted: there are too many calls to look at."' in page


def test_query_is_shown_and_can_be_edited(ann):
    record(ann, {}, FAILED)
    page = Page(ann.get("/calls?failed=1&period=today").text)
    (line,) = page.find("p", "sql-line")
    assert "select * from usage where created_at >= '" in line.text
    (link,) = [a for a in page.find("a") if a.text == "Edit as SQL"]
    assert "529" in ann.get(link.attributes["href"]).text


def test_calls_by_session_are_in_groups(ann):
    record(ann, {"title_text": "Mend it"}, {}, session_id="s 1")
    record(ann, {}, session_id=None)
    page = Page(ann.get("/calls?by=session").text)
    assert [tr.text.split(" ")[0] for tr in page.find("tr", "group")] == ["No", "Mend"]
    assert page.find("tr", "group")[1].text.endswith("default · 2 calls$0.03")


def test_older_calls_are_on_the_next_page(ann):
    at = clock.format_ms(clock.now())
    ann.record(*[{"created_at": at}] * (PAGE_LIMIT + 3))
    first = ann.get("/calls").text
    (older,) = [a.attributes["href"] for a in Page(first).find("a") if a.text == "Older calls"]
    second = ann.get(older).text
    assert ids_of(first) + ids_of(second) == list(range(PAGE_LIMIT + 3, 0, -1))
    assert "Older calls" not in second
    assert "Newest calls" in second


def test_page_of_few_that_fit_ends_after_some_calls_and_goes_on(ann, monkeypatch):
    monkeypatch.setattr(listed_calls, "SEARCHED", 3)
    record(ann, FAILED, *[{}] * 7)
    address, found = "/calls?failed=1", []
    for _ in range(4):
        page = ann.get(address).text
        found += ids_of(page)
        links = [a for a in Page(page).find("a") if a.text in ("Older calls", "look on")]
        if not links:
            break
        address = links[0].attributes["href"]
    assert found == [1]


def test_days_are_chosen_and_old_calls_have_theirs(ann):
    ann.record(created_at="2020-01-02T03:04:05.000Z", said_text="Long ago.")
    record(ann, {"said_text": "Now."})
    assert ids_of(ann.get("/calls").text) == [2]
    for period in ("all", "2020-01-01..2020-01-31"):
        assert 1 in ids_of(ann.get(f"/calls?period={period}").text)
    assert ids_of(ann.get("/calls?until=2021-01-01").text) == [1]


def test_columns_are_in_the_address_and_are_remembered(ann):
    record(ann, {"upstream_request_id": "req_7"})
    page = ann.get("/calls?col=cost&col=request_id")
    assert "req_7" in page.text
    heads = [th.text for th in Page(page.text).find("th")]
    assert heads == ["Time (UTC) ↓", "What is new", "Request id", "Cost"] or heads == [
        "Time (UTC) ↓",
        "What is new",
        "Cost",
        "Request id",
    ]
    (cookie,) = re.findall(r"calls_columns=([^;]+)", page.headers["set-cookie"])
    assert cookie == "cost.request_id"


@pytest.mark.parametrize(
    "query", ["period=yesterday", "cursor=x", "status=x", "cost=much", "model=" + "m" * 600]
)
def test_arguments_that_cannot_be_are_refused(ann, query):
    record(ann, {})
    assert ann.get(f"/calls?{query}").status_code == 400


def test_nothing_that_fits_says_which_filter_to_drop(ann):
    record(ann, {})
    seen = main_of(ann.get("/calls?model=none").text)
    assert "No call fits these filters" in seen
    assert "Without “Model none”" in seen


def test_labels_are_in_the_menu_of_filters(ann):
    record(ann, {"session_id": "a"}, {"session_id": "b"})
    with TraceDatabase(ann.path) as traces, database.immediate(traces.connection):
        given = annotations.Label(label="expensive", by=None, at="2026-01-01T00:00:00.000Z")
        annotations.write_label(traces.connection, Subject("session", "a"), "a", given)
    page = ann.get("/calls").text
    assert re.search(r'<p>Label</p>\s*<a href="/calls[^"]*label=expensive[^"]*">', page)
    assert ids_of(ann.get("/calls?period=all&label=expensive").text) == [1]


def test_of_several_filters_those_are_named_without_which_there_are_calls(ann):
    record(ann, {"model": "here", "slug": "a"}, {"model": "here", "slug": "b"})
    links = re.findall(
        r'<a href="([^"]*)">(Without[^<]*|On all days)</a>( <span class="soft">\d+</span>)?',
        ann.get("/calls?model=here&endpoint=none").text,
    )
    [(address, words, count), (all_days, _, _)] = links
    assert (words, words_of(count)) == ("Without “Endpoint none”", "2")
    assert len(ids_of(ann.get(unescape(address)).text)) == 2
    assert "period=all" in all_days


def test_without_calls_there_is_nothing_to_compare(ann):
    record(ann, {})
    assert "compare-ticked" in ann.get("/calls").text
    assert "compare-ticked" not in ann.get("/calls?model=none").text


def test_a_call_without_its_text_says_so(ann):
    record(ann, {"said_text": None, "title_text": None})
    assert "Answer call 1 without its text" in main_of(ann.get("/calls").text)


def test_before_the_first_call_the_page_says_how_to_connect(ann):
    assert "Nothing has been recorded yet" in ann.get("/calls").text


def test_calls_are_chosen_by_the_tools_that_they_used(ann):
    record(ann, {}, {}, {}, {})
    uses = [
        (1, 0, "Bash", "exit 1"),
        (1, 1, "Read", None),
        (2, 0, "Bash", None),
        (3, 0, "Grep", "x"),
    ]
    with closing(sqlite3.connect(ann.path)) as db, db:
        db.executemany(
            "insert into tool_uses (usage_id, place, tool, problem) values (?, ?, ?, ?)", uses
        )
    for query, expected in (
        ("tool=Bash", [2, 1]),
        ("tool=Bash&tool=Grep", [3, 2, 1]),
        ("tool_failed=1", [3, 1]),
        ("tool_failed=1&tool=Bash", [1]),
        ("tool=Bash&failed=1", []),
    ):
        assert ids_of(ann.get(f"/calls?{query}").text) == expected, query


def test_credentials_have_their_names(ann):
    record(ann, {"credential_hmac": "3f9a21c4" * 4})
    assert "3f9a21c4" in main_of(ann.get("/calls?col=credential").text)
