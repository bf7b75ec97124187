"""The questions of ``docs/questions.md``: each is answered within two steps from the home page.

A step is something that is pressed, a key, or words that are typed and sent with Enter.
"""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest
from click.testing import CliRunner

from manage.cli.main import cli
from metering.formats import format_count, format_some_cost, format_sum_cost
from runtime import clock
from store import database
from store.annotation_rules import Subject
from store.traces import annotations
from store.traces.database import TraceDatabase
from tests import ROOT
from tests.browser.example import Example
from tests.browser.example_calls import PHRASE, SESSION, SONNET, TASK
from tests.browser.facts import BREAK_COSTS, PROMPT, Facts, read_figures, read_rows
from tests.browser.held import held_call
from tests.browser.results import see_result
from tests.browser.site import Site
from tests.browser.visitor import Role, Visitor
from tests.lazily import import_lazily

parquet = import_lazily("pyarrow.parquet")

MAX_STEPS = 2
QUESTIONS: dict[str, Callable[["Walk"], None]] = {}
_SHOWN = "return getComputedStyle(document.querySelector('.here .mark.bad, .here .glyph.fail'), '::before').content"
_TIPS = (
    "return [...document.querySelectorAll('.chart a[data-tip]')].map((each) => each.dataset.tip)"
)
_FILLING = """
return [...document.querySelectorAll(".rail section.second ul li > span")]
  .map((row) => [...row.children].map((each) => squeeze(each.textContent)));
"""
_ROW_OF = """
return [...document.querySelectorAll("tr")].map((row) => squeeze(row.textContent))
  .find((text) => text.startsWith(arguments[0]));
"""
_HERE = "return document.querySelector('.here').textContent"


class Walk:
    """The way from the home page to an answer. Links and buttons are pressed by the keyboard."""

    def __init__(self, visitor: Visitor, site: Site, example: Example, folder) -> None:
        self.visitor = visitor
        self.site = site
        self.example = example
        self.facts = Facts(example.traces_path)
        self.folder = folder
        self.steps = 0
        visitor.open("/")

    def follow(self, name: str, role: Role = "link") -> None:
        self.steps += 1
        with self.visitor.page_change():
            self.visitor.find(name, role).send_keys("\ue007")

    def follow_first(self, selector: str) -> None:
        """Press the first of several links that lead to the same kind of page.

        It is found and pressed at once: a row of a call in flight is drawn anew every now and then."""
        self.steps += 1
        with self.visitor.page_change():
            self.visitor.driver.execute_script(
                "document.querySelector(arguments[0]).click()", selector
            )

    def click(self, name: str, role: Role = "any") -> None:
        """Press something that shows more on the same page."""
        self.steps += 1
        self.visitor.click(name, role)

    def press(self, key: str) -> None:
        self.steps += 1
        self.visitor.press(key)

    def search(self, words: str) -> None:
        self.steps += 1
        self.visitor.field("Search what was said").send_keys(words)
        with self.visitor.page_change():
            self.visitor.press("\ue007")

    def find_request(self, name: str) -> str:
        """Return the id of the request of a call, by which the search finds it."""
        call = self.example.ids[name]
        row = self.facts.row("select upstream_request_id as id from usage where id = ?", call)
        return str(row["id"])

    def open_costliest_session(self) -> None:
        self.follow_first(f"section[aria-labelledby=sessions] a[href='/sessions/{SESSION}']")
        assert self.visitor.path == f"/sessions/{SESSION}"


def parse_short(tokens: str) -> float:
    """Return a number of tokens from its short form: ``2.1k``."""
    return float(tokens.removesuffix("k")) * (1000 if tokens.endswith("k") else 1)


def answers(question: str) -> Callable[[Callable[[Walk], None]], Callable[[Walk], None]]:
    """Make a function the way to the answer to a question."""

    def keep(function: Callable[[Walk], None]) -> Callable[[Walk], None]:
        QUESTIONS[question] = function
        return function

    return keep


@answers("Today, this month, and by the end of it")
def _see_spend(walk: Walk) -> None:
    figures = read_figures(walk.visitor)
    today, month = (f"{clock.now():{pattern}}" for pattern in ("%Y-%m-%d", "%Y-%m"))
    sql = "select total(cost_cents) from usage where created_at >= ?"
    name = f"{clock.now():%B}"
    assert figures["Today"].startswith(f"Today: {format_sum_cost(walk.facts.value(sql, today))} ")
    assert figures[name].startswith(f"{name}: {format_sum_cost(walk.facts.value(sql, month))} ")
    assert " expected at its end" in figures[name]


@answers("By endpoint, credential and client, per day")
def _see_spend_by_endpoint(walk: Walk) -> None:
    walk.click("by model", "menu")
    walk.follow("Endpoint")
    then = clock.now() - timedelta(days=3)
    day = f"{then:%Y-%m-%d}"
    tips = map(json.loads, walk.visitor.run(_TIPS))
    (row,) = [
        dict(tip["rows"])
        for tip in tips
        if tip["head"].startswith(f"{then:%a} {then.day} {then:%b},")
    ]
    for slug in ("nightly-reports", "dispatch-desk"):
        sql = "select total(cost_cents) from usage where slug = ? and created_at like ? || '%'"
        assert row[slug] == format_sum_cost(walk.facts.value(sql, slug, day))


@answers("This week against the week before, by model")
def _compare_weeks(walk: Walk) -> None:
    rows = {
        each["Model"]: each
        for each in read_rows(walk.visitor, "7 days against the time before, by model")
    }
    sql = (
        "select total(cost_cents) from usage where model = ? and created_at >= ? and created_at < ?"
    )
    today = clock.now().date()
    days = [(today - timedelta(days=back)).isoformat() for back in (13, 6, -1)]
    before, now = (walk.facts.value(sql, SONNET, first, last) for first, last in pairwise(days))
    row = rows[SONNET.removeprefix("claude-")]
    assert (row["7 days ↓"], row["Before"]) == (format_sum_cost(now), format_sum_cost(before))


@answers("A session and a prompt, on average")
def _see_means(walk: Walk) -> None:
    walk.follow("$/session as the measure")
    rows = {
        each["Mean cost of"]: each
        for each in read_rows(walk.visitor, "Means, 7 days against the time before")
    }
    sessions = walk.facts.row(
        "select count(*) as sessions, sum(cost_cents) as cents, sum(prompts) as prompts from sessions"
    )
    mean, of_prompt = (
        format_sum_cost(sessions["cents"] / sessions[name]) for name in ("sessions", "prompts")
    )
    assert [rows[name]["7 days"] for name in ("A session", "A prompt")] == [mean, of_prompt]


@answers("What tools cost")
def _see_tools(walk: Walk) -> None:
    walk.follow("All tools")
    cost = "definition_cents + written_cents + carried_cents"
    for tool in ("Task", "Bash"):
        shown = walk.visitor.run(_ROW_OF, tool)
        cents = walk.facts.value(f"select total({cost}) from tools_daily where tool = ?", tool)  # noqa: S608
        assert format_sum_cost(cents) in shown


@answers("The same calls with another model")
def _see_other_models(walk: Walk) -> None:
    walk.follow("Another model")
    cents = walk.facts.value(
        "select total(cost_cents) from usage where created_at >= date('now', '-6 days')"
    )
    lede = walk.visitor.run("return document.querySelector('.lede').textContent")
    assert f"cost {format_sum_cost(cents)}. The same tokens with " in lede


@answers("The most expensive session of the week, and why")
def _see_costliest_session(walk: Walk) -> None:
    costs = walk.facts.rows(
        "select session_id, sum(cost_cents) as cents from usage where session_id is not null"
        " group by 1 order by 2 desc"
    )
    assert costs[0]["session_id"] == SESSION
    walk.follow("Most expensive of 7 days")
    walk.follow_first("section[aria-labelledby=sessions] tbody a")
    assert walk.visitor.path == f"/sessions/{SESSION}"
    lede = walk.visitor.run("return document.querySelector('.lede').textContent")
    assert lede.startswith(f"{format_some_cost(costs[0]['cents'])} for ")
    more = sum(each["cents"] for each in walk.facts.rows(BREAK_COSTS, SESSION))
    assert f"Three cache breaks cost {format_some_cost(more)} of it" in lede


@answers("Its most expensive turn, and what was new in it")
def _see_costliest_turn(walk: Walk) -> None:
    walk.open_costliest_session()
    costliest = walk.facts.row(
        "select id from usage where session_id = ? order by cost_cents desc limit 1",
        SESSION,
    )
    walk.follow_first(f".line[data-call='{costliest['id']}'] a.open")
    assert walk.visitor.path == f"/calls/{costliest['id']}"
    walk.visitor.see("New in this call" if costliest["id"] != walk.example.ids["first"] else TASK)


@answers("Subagents against the main agent")
def _see_agents(walk: Walk) -> None:
    walk.open_costliest_session()
    shown = walk.visitor.run(
        "return [...document.querySelectorAll('.rail ul a')].map((each) => squeeze(each.textContent))"
    )
    agents = walk.facts.rows(
        "select agent_id, count(*) as calls, sum(cost_cents) as cents from usage"
        " where session_id = ? group by 1",
        SESSION,
    )
    assert len(agents) == len(shown) == 3
    costs = sorted(format_some_cost(agent["cents"]) for agent in agents)
    assert sorted(line.partition("$")[1] + line.partition("$")[2] for line in shown) == costs


@answers("Which turn broke the cache, what changed, and what it cost")
def _see_break(walk: Walk) -> None:
    walk.open_costliest_session()
    walk.press("b")
    first = walk.facts.rows(BREAK_COSTS, SESSION)[0]
    assert first["id"] == walk.example.ids["lost-tool"]
    line = walk.visitor.run(_HERE)
    assert "“mcp__maps__route” was removed" in line
    words = f"{format_count(first['tokens'])} tokens were written again: "
    assert f"{words}{format_some_cost(first['cents'])} more than reading them" in line


@answers("What changed between two requests")
def _see_changes(walk: Walk) -> None:
    walk.search(walk.find_request("edited"))
    walk.follow("Compare with the turn before")
    changed = walk.visitor.run(
        "return [...document.querySelectorAll('del, ins')].map((each) => each.textContent)"
    )
    assert {"yesterday", "Monday"} <= {each.strip(" .") for each in changed}


@answers("Read 200 turns and jump to the failure")
def _see_failure(walk: Walk) -> None:
    walk.open_costliest_session()
    walk.press("n")
    assert "✕" in walk.visitor.run(_SHOWN)


@answers("Why calls failed, when, and how near the limits we are")
def _see_failures(walk: Walk) -> None:
    failed = walk.facts.value(
        "select count(*) from usage where outcome not in ('complete', 'client_disconnected')"
        " and created_at >= date('now', '-6 days')"
    )
    (limits,) = [
        words for name, words in read_figures(walk.visitor).items() if "Subscription" in name
    ]
    assert re.search(r"5 hours ?34 %.*resets.*Week ?31 %.*resets", limits)
    walk.follow(f"All {failed}")
    walk.visitor.see(f"{failed} failed in 7 days")
    walk.follow_first("table.calls tbody tr:last-child a")
    walk.visitor.see("overloaded_error")


@answers("Is the proxy slowing me down? Tokens per second by model?")
def _see_speed(walk: Walk) -> None:
    walk.follow("Time as the measure")
    rows = {each["Model"]: each for each in read_rows(walk.visitor, "Times by model, 14 days")}
    shown = rows[SONNET.removeprefix("claude-")]
    assert re.fullmatch(r"\d+\.\d ms", shown["Proxy"])
    speeds = walk.facts.rows(
        "select output_tokens_per_s as speed from usage where model = ? and output_tokens_per_s is not null"
        " and created_at >= date('now', '-13 days') order by 1",
        SONNET,
    )
    speed = float(shown["Tokens/s"].replace(",", ""))
    low, high = (speeds[place]["speed"] for place in ((len(speeds) - 1) // 2, len(speeds) // 2))
    assert low * 0.9 <= speed <= high * 1.1


@answers("Which calls are in flight?")
def _see_flights(walk: Walk) -> None:
    words = ("x-claude-code-session-id", "a session that goes on")
    with held_call(walk.site, "A long story", words, slug="dispatch-desk"):
        walk.follow("Calls")
        walk.visitor.see("A long story")
        flying = walk.visitor.run("return document.querySelectorAll('tr.flying').length")
        assert flying == 1
        walk.follow_first("tr.flying a")
        walk.visitor.see("It was")
    walk.site.count_calls()


@answers("The call in which a phrase was said, and by whom")
def _see_phrase(walk: Walk) -> None:
    walk.search(f'"{PHRASE}"')
    see_result(walk.visitor, PHRASE)
    walk.visitor.see("assistant")
    walk.follow(f"Call {walk.example.ids['phrase']}")
    walk.visitor.see(PHRASE)


@answers("What fills the context")
def _see_context(walk: Walk) -> None:
    walk.open_costliest_session()
    call = walk.example.ids["lost-tool"]
    walk.follow_first(f".line[data-call='{call}'] a.open")
    rows = walk.visitor.run(_FILLING)
    assert {name for name, _ in rows} >= {"Tools", "System prompt", "Tool results"}
    prompt = walk.facts.value(f"select {PROMPT} from usage where id = ?", call)  # noqa: S608 - our own text
    assert sum(parse_short(tokens) for _, tokens in rows) == pytest.approx(prompt, rel=0.02)


@answers("What could have been saved")
def _see_savings(walk: Walk) -> None:
    walk.follow("Savings")
    found = [
        (each["What could be saved"], each["Cost ↓"])
        for each in read_rows(walk.visitor, "What could have been saved, by kind")
        if "Cost ↓" in each
    ]
    cost = walk.facts.rows(BREAK_COSTS, SESSION)[0]["cents"]
    assert ("the tools changed", format_sum_cost(cost)) in found


@answers("Send this again with a change")
def _see_replay(walk: Walk) -> None:
    walk.search(walk.find_request("edited"))
    walk.follow("Send again")
    assert "Model" in walk.visitor.labels()


@answers("How much of the subscription's window is left")
def _see_windows(walk: Walk) -> None:
    (limits,) = [
        words for name, words in read_figures(walk.visitor).items() if "Subscription" in name
    ]
    assert re.search(
        r"5 hours ?34 % ?at most 66 ?% left; resets ([A-Z][a-z]{2} )?\d\d:\d\d.*Week ?31 % ?at most 69 ?% left",
        limits,
    )


@answers("What somebody has labelled or noted")
def _see_labels(walk: Walk) -> None:
    at, session = clock.format_ms(clock.now()), Subject("session", SESSION)
    with TraceDatabase(walk.example.traces_path) as traces, database.immediate(traces.connection):
        label = annotations.Label(label="to be told", by=None, at=at)
        annotations.write_label(traces.connection, session, SESSION, label)
        note = annotations.Note(text="The tariff was wrong since October.", by=None, at=at)
        annotations.write_note(traces.connection, session, SESSION, note)
    walk.follow("Sessions")
    walk.follow("to be told")
    listed = walk.visitor.run(
        "return [...document.querySelectorAll('tbody th.title a:first-child')].map((each) => each.pathname)"
    )
    assert listed == [f"/sessions/{SESSION}"]
    found = Walk(walk.visitor, walk.site, walk.example, walk.folder)
    found.search("October")
    found.visitor.see("The tariff was wrong since October.")
    with TraceDatabase(walk.example.traces_path) as traces, database.immediate(traces.connection):
        annotations.remove_of_session(traces.connection, SESSION)


@answers("Hand a session to somebody")
def _share(walk: Walk) -> None:
    walk.open_costliest_session()
    walk.click("Export", "menu")
    walk.visitor.see("One HTML file")
    path = f"/sessions/{SESSION}/export.html?bodies=yes"
    page = walk.visitor.run_async("fetch(arguments[0]).then((a) => a.text()).then(done)", path)
    assert TASK in page
    assert "<script" not in page


@answers("Last month to Parquet and DuckDB")
def _export(walk: Walk) -> None:
    file = walk.folder / "month.parquet"
    walk.steps += 1
    arguments = ["--since", "14d", "-o", str(file)]
    data_dir = walk.site.service.data_dir
    done = CliRunner().invoke(cli, ["export", *arguments, "--data-dir", str(data_dir)])
    assert done.exit_code == 0, done.output
    table = parquet.read_table(file, columns=["organization_id", "cost_cents"])
    own = walk.example.traces_path.parent.name
    cents = [row["cost_cents"] for row in table.to_pylist() if row["organization_id"] == own]
    calls = walk.facts.row("select count(*) as calls, total(cost_cents) as cents from usage")
    assert len(cents) == calls["calls"]
    assert float(sum(each for each in cents if each is not None)) == pytest.approx(calls["cents"])


def test_every_question_has_its_answer_within_two_steps(site, example, rosa, tmp_path):
    asked = re.findall(r"^### (.+)$", (ROOT / "docs" / "questions.md").read_text(), re.MULTILINE)
    assert sorted(QUESTIONS) == sorted(asked)
    steps = {}
    for question in asked:
        walk = Walk(rosa, site, example, tmp_path)
        try:
            QUESTIONS[question](walk)
        except AssertionError as error:
            error.add_note(f"Question: {question}")
            raise
        steps[question] = walk.steps
    assert max(steps.values()) <= MAX_STEPS, json.dumps(steps, indent=1)
