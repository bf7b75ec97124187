"""The pages of savings: of a period and of a session, as pages and as JSON."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from conversations.savings.kinds import AVOIDABLE, KINDS
from runtime import clock
from store import database
from store.traces.calls.cache_breaks import write_break
from store.traces.savings import savings
from store.traces.savings.savings import FindingRow, Looked
from tests.dashboard.pages import Page, words_of
from tests.dashboard.sessions.story.turns import BREAK

SAVED = (
    "select sum(cents) from savings where finding not in"
    " ('long_gap', 'client_tools', 'large_result') and day >= ?"
)


def today():
    return clock.now().date().isoformat()


def row(finding, cents, **changes):
    values: dict[str, Any] = {
        "day": today(),
        "subject": "",
        "calls": 3,
        "tokens": 5_000,
        "unpriced_tokens": 0,
        "top": [(1, cents)],
    }
    return FindingRow(finding=finding, cents=cents, **(values | changes))


def store(person, *rows, session="s1", first_day="", **fields):
    """Record a call of a session, and store findings as the recorder does."""
    person.record(session_id=session, title_text=f"About {session}", message_count=1, **fields)
    with closing(sqlite3.connect(person.path, isolation_level=None)) as db:
        due = savings.find_due(db, 1e12)
        assert due is not None
        looked = Looked(
            method=1, computed_at=f"{today()}T10:00:00.000Z", calls=7, conversations=3, opened=2
        )
        savings.write_findings(
            db,
            due,
            rows,
            looked,
            first_day=first_day,
            keeps=(),
            avoidable=AVOIDABLE,
            tools={},
            again_at=0.0,
        )


def test_findings_are_listed_in_order_of_dollars(ann):
    store(
        ann,
        row("never_cached", 40.0),
        row("cache_break", 150.0, subject="tools"),
        row("long_gap", 90.0),
    )
    found = ann.get("/savings.json?span=today").json()
    assert [(i["finding"], i["cost_cents"], i["is_saving"]) for i in found["items"]] == [
        ("cache_break", 150.0, True),
        ("never_cached", 40.0, True),
        ("long_gap", 90.0, False),
    ]
    page = ann.get("/savings?span=today").text
    assert page.index("<bdi>the tools changed") < page.index("never cached")
    assert page.index("never cached") < page.index("not counted as savings")
    assert KINDS["cache_break"].remedy in page
    assert 'href="/calls/1"' in page
    assert 'href="/sessions/s1/savings"' in page


def test_a_cause_with_a_remedy_of_its_own_has_that_one(ann):
    store(ann, row("cache_break", 150.0, subject="model"))
    (item,) = ann.get("/savings.json").json()["items"]
    assert item["remedy"].startswith("Each model has a cache of its own")
    page = ann.get("/savings").text
    assert "Each model has a cache of its own" in page
    assert KINDS["cache_break"].remedy not in page


def test_people_with_claude_code_are_told_what_they_can_do(ann):
    store(ann, row("cache_break", 150.0, subject="tools"), client="claude-cli/2.1.329")
    for page in ("/savings", "/sessions/s1/savings"):
        told = ann.get(page).text
        assert "Connect MCP servers and plugins before the first prompt" in told
        assert KINDS["cache_break"].remedy not in told
    advice = Page(ann.get("/savings").text).find("p", "advice")
    assert [each.text for each in advice] == [KINDS["cache_break"].claude_code["tools"]]


def test_each_kind_has_advice_that_names_no_cache_marker():
    for kind in KINDS.values():
        for words in kind.claude_code.values():
            assert not re.search(r"ttl|cache_control|cache marker", words)
        assert kind.find_remedy("", "Anthropic/Python 1.0") == kind.remedy


def test_a_session_says_why_a_pause_is_not_counted(ann):
    pause = replace(BREAK, cause="expired", gap_ms=55 * 60_000, extra_cost_cents=2.2)
    store(ann, row("cache_break", 150.0, subject="tools"))
    with closing(sqlite3.connect(ann.path)) as db, db:
        write_break(db, 1, pause)
    told = words_of(ann.get("/sessions/s1/savings").text)
    assert (
        "Not counted: 1 cache break after a pause of up to an hour, $0.022 more than reading."
        in told
    )
    store(ann, row("idle_gap", 2.0), session="s2")
    with closing(sqlite3.connect(ann.path)) as db, db:
        write_break(db, 2, pause)
    assert "Not counted" not in ann.get("/sessions/s2/savings").text


def test_an_open_kind_lists_three_subjects_and_then_all(ann):
    store(
        ann,
        *(
            row("repeated_result", 10.0 + number, subject=f"file {number}", calls=2)
            for number in range(5)
        ),
        row("never_cached", 20.0),
    )
    page = ann.get("/savings?period=today").text
    listed = re.findall(r"<bdi>(file \d)</bdi>", page)
    assert listed == ["file 4", "file 3", "file 2"]
    more = '<a href="/savings?period=today&amp;open=repeated_result&amp;all=1#repeated_result">2 more</a>'
    assert more in page
    assert KINDS["repeated_result"].formula in page
    whole = ann.get("/savings?period=today&open=repeated_result&all=1").text
    assert len(re.findall(r"<bdi>file \d</bdi>", whole)) == 5
    assert "more</a>" not in whole
    closed = ann.get("/savings?period=today&open=never_cached").text
    assert "<bdi>file" not in closed
    assert KINDS["never_cached"].formula in closed


def test_the_total_is_that_of_the_table_and_leaves_out_what_is_no_saving(ann):
    store(ann, row("never_cached", 40.25), row("long_gap", 90.0), row("never_read", 0.5))
    store(ann, row("failed_call", 3.5, subject="upstream_timeout"), session="s2")
    found = ann.get("/savings.json?span=7d").json()
    with closing(sqlite3.connect(ann.path)) as db:
        (cents,) = db.execute(SAVED, (found["first_day"],)).fetchone()
    assert found["total_cents"] == pytest.approx(cents) == pytest.approx(44.25)
    assert [(s["session_id"], s["cost_cents"]) for s in found["sessions"]] == [
        ("s1", 40.75),
        ("s2", 3.5),
    ]
    assert "<b>$0.44</b> could have been saved" in ann.get("/savings").text


def test_small_findings_are_counted_and_not_listed(ann):
    store(
        ann,
        row("never_cached", 40.0),
        row("never_read", 0.9, tokens=9_000),
        row("needless_hour", 5.0, tokens=1_900),
    )
    found = ann.get("/savings.json").json()
    assert [item["finding"] for item in found["items"]] == ["never_cached"]
    assert found["smaller"] == {"count": 2, "cost_cents": 5.9}
    assert "And 2 smaller ones, $0.06" in ann.get("/savings").text


def test_only_the_days_of_the_period_count(ann):
    store(
        ann, row("never_cached", 40.0, day="2026-01-02"), row("never_cached", 7.0, day="2026-01-03")
    )

    def cents(span):
        return ann.get(f"/savings.json?span={span}").json()["total_cents"]

    assert cents("2026-01-02..2026-01-02") == 40.0
    assert cents("2026-01-02..2026-01-03") == 47.0
    assert cents("today") == 0
    assert ann.get("/savings?span=2026-01-02..2026-01-03").status_code == 200


@pytest.mark.parametrize(
    "span", ["", "yesterday", "2026-01-03..2026-01-02", "2026-13-01..2026-13-02"]
)
def test_a_bad_period_is_refused(ann, span):
    response = ann.get(f"/savings.json?span={span}")
    assert response.status_code == 400
    assert "Span must be" in response.json()["error"]["message"]


def test_tokens_without_a_price_are_told_apart(ann):
    store(ann, row("never_read", 0.0, unpriced_tokens=5_000, top=[(1, None)]))
    page = ann.get("/savings").text
    assert "5.0k tokens without a known price" in page
    assert ann.get("/savings.json").json()["unpriced_tokens"] == 5_000


def test_a_session_has_its_own_page(ann):
    store(ann, row("cache_break", 150.0, subject="<b>system</b>", top=[(1, 150.0), (99, 2.0)]))
    page = ann.get("/sessions/s1/savings").text
    assert "<b>system" not in page
    assert "Call 99, removed by retention" in page
    assert "from 7 calls, by version 1 of the rules" in page
    assert "in 2 of 3 conversations" in page
    found = ann.get("/sessions/s1/savings.json").json()
    assert (found["session_id"], found["total_cents"], found["method"]) == ("s1", 150.0, 1)
    assert 'href="/sessions/s1/savings"' in ann.get("/sessions/s1").text


def test_a_session_leads_to_its_costs_with_another_model(ann):
    store(ann, row("cache_break", 0.5), session="s/1")
    page = ann.get("/sessions/s%2F1/savings").text
    (address,) = re.findall(r'href="(/savings/models[?]session=[^"]*)"', page)
    assert address == "/savings/models?session=s/1"
    told = words_of(ann.get(address).text)
    assert re.search(r"The calls of (?!session).+ cost \$", told), "by its title"


def test_the_home_page_says_what_the_week_could_have_saved(ann):
    store(
        ann,
        row("never_cached", 140.0),
        row("long_gap", 90.0),
        row("never_read", 9.0, day="2026-01-02"),
    )
    part = ann.get("/").text.partition("Could be saved")[2].partition("</section>")[0]
    assert "$1.40 of" in part
    assert KINDS["never_cached"].title in part
    assert KINDS["long_gap"].title not in part
    week = ann.get("/savings.json").json()
    assert (week["span"], week["total_cents"]) == ("7d", 140.0)


def test_the_home_page_is_silent_where_nothing_could_have_been_saved(ann):
    store(ann, row("long_gap", 90.0))
    assert "Could be saved" not in ann.get("/").text


def test_before_anybody_looked_the_pages_say_so(ann):
    assert "Nothing was found" in ann.get("/savings").text
    ann.record(session_id="s1")
    assert "1 session is still to be looked at" in ann.get("/savings").text
    assert "computed some seconds after its last call" in ann.get("/sessions/s1/savings").text
    assert ann.get("/sessions/gone/savings").status_code == 404


def test_a_session_that_changed_while_it_was_looked_at_is_due_again(ann):
    ann.record(session_id="s1")
    with closing(sqlite3.connect(ann.path, isolation_level=None)) as db:
        due = savings.find_due(db, 1e12)
        assert due is not None
        ann.record(session_id="s1")
        with database.immediate(db):
            savings.drop_due(db, due, 50.0)
        again = savings.find_due(db, 1e12)
        assert again is not None
        assert (again.session_id, again.due_at) == ("s1", 50.0)
        with database.immediate(db):
            savings.drop_due(db, again, 60.0)
        assert savings.find_due(db, 1e12) is None
