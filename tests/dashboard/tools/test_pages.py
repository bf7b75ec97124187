"""The page on tools, and its JSON."""

import re

import pytest

from runtime import clock
from store import database
from store.control import credential_names
from store.traces.database import TraceDatabase
from store.traces.savings import tool_sums
from store.traces.savings.tool_sums import Payer, Target, ToolSums
from store.traces.sums import histograms
from tests.dashboard.pages import words_of


def store(person, *uses, day=None, slug="default", credential="c0ffeec0ffee", session="s"):
    """Store sums of tools, each given by server, tool, target and sums."""
    day = day or clock.now().date().isoformat()
    payer = Payer(day, slug, credential)
    sums = {(payer, Target(*names)): found for *names, found in uses}
    with TraceDatabase(person.path) as traces, database.immediate(traces.connection):
        tool_sums.write_session(traces.connection, session, day, sums, has_costs=True)


def used(uses=1, failed=0, tokens=0, definition=0.0, written=0.0, carried=0.0):
    """Return sums of uses whose results are all of one size."""
    sizes = histograms.make([tokens / uses] * uses if uses else [])
    return ToolSums(uses, failed, tokens, definition, written, carried, sizes)


@pytest.fixture
def tools(ann):
    ann.record(cost_cents=1_000)
    store(
        ann,
        ("", "Read", "/a.py", used(3, 1, 3_000, 10.0, 100.0, 200.0)),
        ("", "Read", "/b.py", used(1, 0, 1_000, 0.0, 50.0, 20.0)),
        ("", "Bash", "pytest -q", used(2, 2, 400, 5.0, 20.0, 10.0)),
        ("tracker", "find", "", used(1, 0, 700, 2.0, 3.0, 0.0)),
        ("tracker", "add", "", used(0, 0, 0, 40.0)),
        ("tracker", "remove", "", used(0, 0, 0, 30.0)),
    )
    return ann


def test_tools_are_listed_by_server_with_what_they_cost(tools):
    words = words_of(tools.get("/tools").text)
    assert "Tools put 5.1k tokens into conversations" in words
    assert "Writing them cost $1.73, carrying them to the end of their conversations $2.30" in words
    assert "2 tools of tracker were never called and cost $0.70." in words
    assert "own 2 tools 6 3 981 4.4k $0.15 $1.70 $2.30 $4.15" in words
    assert "Read 4 1 981 4.0k $0.10 $1.50 $2.20 $3.80" in words
    assert "tracker MCP, 3 tools 1 693 700 $0.72 $0.03 $0.00 $0.75" in words
    assert "2 more, never called 0" in words
    assert "All tools 7 3 981 5.1k $0.87 $1.73 $2.30 $4.90" in words
    assert words.index("Read") < words.index("Bash") < words.index("tracker MCP")


def test_what_tools_brought_in_is_listed_by_cost(tools):
    words = words_of(tools.get("/tools").text)
    assert "Read /a.py 1 session, 1 failed 3 3.0k $3.00" in words
    assert words.index("/a.py") < words.index("/b.py") < words.index("pytest -q")


def test_files_are_named_from_the_folder_of_their_project_on(ann):
    store(
        ann,
        ("", "Read", "/home/ada/cab/meter.py", used(1, 0, 10, 0.0, 9.0)),
        ("", "Read", "/home/ada/cab/tests/test_meter.py", used(1, 0, 10, 0.0, 8.0)),
        ("", "Bash", "pytest /home/ada/cab", used(1, 0, 10, 0.0, 7.0)),
    )
    page = ann.get("/tools").text
    assert re.findall(r"<code>(.*?)</code>", page) == [
        "meter.py",
        "tests/test_meter.py",
        "pytest /home/ada/cab",
    ]
    assert 'title="/home/ada/cab/tests/test_meter.py"' in page


def test_credentials_are_filtered_by_their_names(ann, control):
    store(ann, ("", "Read", "/a.py", used(1)), credential="c1" * 16)
    store(ann, ("", "Read", "/a.py", used(1)), credential="c2" * 16, session="t")
    with control.transaction() as rows:
        credential_names.write(rows, ann.organization_id, "c1" * 16, "laptop of Ada")
    menu = words_of(ann.get("/tools").text)
    assert "Credential laptop of Ada 1 use c2c2c2c2 1 use" in menu
    assert "Credential laptop of Ada ✕" in words_of(ann.get(f"/tools?credential={'c1' * 16}").text)


def test_tabs_have_the_sums_of_their_pages(tools):
    for page in ("/savings", "/tools", "/savings/models"):
        assert "Tools $4.90" in words_of(tools.get(page).text)


def test_the_same_as_json(tools):
    found = tools.get("/tools.json?period=7d").json()
    assert found["period"] == "7d"
    assert found["tools"][0] == {
        "server": None,
        "tool": "Read",
        "uses": 4,
        "failed": 1,
        "result_tokens": 4_000,
        "median_result_tokens": 981,
        "definition_cents": 10.0,
        "written_cents": 150.0,
        "carried_cents": 220.0,
    }
    assert [each["tool"] for each in found["tools"]] == ["Read", "add", "Bash", "remove", "find"]
    assert [each["target"] for each in found["targets"]] == ["/a.py", "/b.py", "pytest -q"]
    assert found["targets"][0]["sessions"] == 1


def test_periods_and_filters_choose_days_endpoints_and_credentials(tools):
    store(tools, ("", "Grep", "x", used(5)), day="2020-01-02", session="old")
    store(tools, ("", "Glob", "*", used(9)), slug="other", credential="beef", session="t")
    for query, expected in (
        ("period=today", {"Read", "Bash", "find", "add", "remove", "Glob"}),
        ("period=2020-01-01..2020-01-31", {"Grep"}),
        ("endpoint=other", {"Glob"}),
        ("credential=c0ffeec0ffee", {"Read", "Bash", "find", "add", "remove"}),
        ("endpoint=nowhere", set()),
    ):
        found = tools.get(f"/tools.json?{query}").json()["tools"]
        assert {each["tool"] for each in found} == expected, query
    page = tools.get("/tools?endpoint=other")
    assert "Remove Endpoint other" in page.text
    assert "c0ffeec0 " in words_of(page.text)
    assert "c0ffeec0ffee</bdi>" not in page.text


def test_without_tools_the_page_says_so(ann):
    assert "No tool was used in these days" in ann.get("/tools").text
    assert ann.get("/tools.json").json()["tools"] == []
    ann.record()
    page = ann.get("/tools?endpoint=default").text
    assert "No tool was used in these days" in page
    assert "without filters" in page


@pytest.mark.parametrize(
    "query", ["period=ever", "period=2026-13-01..2026-13-02", f"endpoint={'x' * 501}"]
)
def test_what_is_no_period_or_filter_is_refused(ann, query):
    assert ann.get(f"/tools.json?{query}").status_code == 400


def test_many_tools_of_a_server_are_one_line(ann):
    ann.record()
    store(ann, *(("", f"tool-{n}", "", used(1, written=n + 1.0)) for n in range(12)))
    words = words_of(ann.get("/tools").text)
    assert "tool-11" in words
    assert "tool-4" in words
    assert "tool-3 " not in words
    assert "4 more 4 0 0 $0.00 $0.10 $0.00 $0.10" in words


def test_markup_in_names_is_text(ann):
    ann.record()
    evil = "<b>x</b>"
    store(ann, (evil, evil, evil, used(1, 1, 10, 1.0, 1.0, 1.0)))
    text = ann.get("/tools").text
    assert evil not in text
    assert "&lt;b&gt;x&lt;/b&gt;" in text
