"""The summary of a session, and its map."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from dashboard.paid_parts import list_paid_for
from dashboard.sessions.story.causes import list_causes
from dashboard.sessions.story.map import GROUND, MAX_BARS, TOP, make_map
from dashboard.sessions.story.summary import (
    join_words,
    list_agents,
    make_lede,
    split_cost,
    tell_failures,
)
from metering.formats import format_some_cost
from metering.token_counts import TokenCounts
from store.traces.sessions.session_reader import Session as Sums
from tests.dashboard.sessions.story.turns import BREAK, Session, use


def sums(cents: float) -> Sums:
    return Sums(
        session_id="s",
        title=None,
        started_at="2026-03-01T09:00:00.000Z",
        ended_at="2026-03-01T10:00:00.000Z",
        slug="default",
        client=None,
        peak_prompt_tokens=0,
        calls=0,
        errors=0,
        unpriced=0,
        cache_breaks=0,
        cost_cents=cents,
        estimated_cents=0.0,
        value_cents=0.0,
        tokens=TokenCounts(),
    )


def lede(session: Session, cents: float = 489.0) -> str:
    return "".join(run.text for run in make_lede(sums(cents), session.tell()))


def test_lede_tells_costs_and_failures() -> None:
    session = Session()
    session.add(use("Bash", "pytest", problem="exit 1"), cents={"cache_read": 222.0})
    session.add(cache_break=BREAK)
    session.add(agent_id="a", cost_cents=29.0)
    session.add(outcome="upstream_error", status_code=529)
    session.add(prompt_id="p2", request_class="compaction", cost_cents=20.0)
    session.add(prompt_id="p2")
    assert lede(session) == (
        "$4.89 for 2 prompts in 5 turns. Carrying the context cost $2.23 of it, a cache break $0.41, and"
        " a compaction $0.20. One subagent took $0.29 of it. One command ended with an error, and one call"
        " failed."
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0, ""), (100.0, " It is not billed to you."), (40.0, " $0.40 of it is not billed to you.")],
)
def test_lede_tells_what_is_no_spend(value: float, words: str) -> None:
    session = Session()
    session.add(cents={})
    told = make_lede(replace(sums(100.0), value_cents=value), session.tell())
    assert "".join(run.text for run in told) == f"$1.00 for 1 prompt in 1 turn.{words}"


def test_lede_says_of_imported_calls_that_they_are_imported() -> None:
    session = Session()
    session.add(cents={}, usage_source="imported")
    told = make_lede(replace(sums(100.0), value_cents=100.0), session.tell())
    assert "".join(run.text for run in told) == (
        "$1.00 for 1 prompt in 1 turn. 1 call of it is imported from transcripts, which do not say who paid."
    )


def test_lede_of_a_plain_session_is_short() -> None:
    session = Session()
    session.add(cents={})
    assert lede(session, 1.0) == "$0.010 for 1 prompt in 1 turn."


def test_failures_are_counted_in_words_below_ten() -> None:
    session = Session()
    for _ in range(10):
        session.add(use("Edit", "x", problem="string not found"))
    assert tell_failures(session.tell().steps) == "10 tools failed"
    session.add(outcome="upstream_error")
    assert tell_failures(session.tell().steps) == "10 tools and one call failed"
    session.add(use("Bash", "pytest", problem="exit 1"))
    assert tell_failures(session.tell().steps) == (
        "one command ended with an error, and 10 other tools and one call failed"
    )


def test_lede_tells_what_a_chat_resends_and_what_fills_the_cache() -> None:
    chat = Session()
    for number, tokens in enumerate((900, 1_000, 1_100)):
        counts = TokenCounts(input_tokens=tokens, output_tokens=50)
        chat.add(
            tokens=counts, cents={"input": tokens / 100, "output": 1.0}, prompt_id=f"p{number}"
        )
    assert (
        "Sending the conversation again uncached cost $0.20 of it, uncached input $0.10,"
        in lede(chat)
    )
    session = Session()
    session.add(cents={"cache_write_5m": 6.0, "output": 1.0})
    session.add(cents={"cache_write_5m": 2.0, "cache_read": 1.0})
    assert (
        "Filling the cache at the beginning cost $0.060 of it, writing what was new to the cache"
        in lede(session)
    )


def test_expensive_prompt_says_why_it_was() -> None:
    session = Session()
    session.add(prompt_id="p1")
    broken = {"cache_write_5m": 45.0, "output": 2.0}
    session.add(prompt_id="p2", cache_break=BREAK, cost_cents=47.0, cents=broken)
    session.add(prompt_id="p3")
    session.add(prompt_id="p3", agent_id="a", cost_cents=90.0)
    story = session.tell()
    assert [
        [(each.words, each.cents) for each in story.find_causes(chapter)]
        for chapter in story.chapters
    ] == [[], [("a cache break", 41.0)], [("a subagent", 90.0)]]


amounts = st.floats(0, 50).map(lambda cents: round(cents, 2))


@given(st.lists(st.tuples(amounts, amounts, amounts, amounts, st.booleans()), max_size=20))
def test_every_cent_has_one_reason(turns: list[tuple[float, float, float, float, bool]]) -> None:
    session = Session()
    for read, write, given_input, output, is_broken in turns:
        cents = {
            "cache_read": read,
            "cache_write_5m": write,
            "input": given_input,
            "output": output,
        }
        session.add(
            cents=cents,
            cost_cents=sum(cents.values()),
            cache_break=BREAK if is_broken and write > 41.0 else None,
        )
    story = session.tell()
    told = sum(each.cents for each in list_causes(story.steps, story.amounts))
    assert told == pytest.approx(sum(step.cents for step in story.steps))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b, and c")],
)
def test_words_are_joined(words: list[str], sentence: str) -> None:
    assert join_words(words) == sentence


@pytest.mark.parametrize(
    ("cents", "text"),
    [
        (None, "—"),
        (0, "$0"),
        (0.002, "<$0.0001"),
        (0.01, "$0.0001"),
        (0.05, "$0.001"),
        (8.9, "$0.089"),
        (20, "$0.20"),
        (489, "$4.89"),
    ],
)
def test_small_sums_have_more_decimals(cents: float | None, text: str) -> None:
    assert format_some_cost(cents) == text


def test_parts_of_the_cost_fill_the_bar() -> None:
    session = Session()
    session.add(cents={"cache_read": 3.0, "web_search": 1.0})
    session.add(cents={"cache_write_5m": 4.0})
    parts = list_paid_for(split_cost(session.tell().steps))
    assert [(each.part.word, each.cents, *each.place) for each in parts] == [
        ("reads", 3.0, "0.00%", "37.50%"),
        ("writes", 4.0, "37.50%", "50.00%"),
        ("searches", 1.0, "87.50%", "12.50%"),
    ]


def test_agents_have_their_sums() -> None:
    session = Session()
    session.add(use("Task", "Explore"))
    session.add(agent_id="a", cost_cents=3.0)
    assert [
        (each.name, each.turns, each.cents, each.thread) for each in list_agents(session.tell())
    ] == [
        ("Main agent", 1, 1.0, 0),
        ("Explore", 1, 3.0, 1),
    ]


def test_map_has_a_bar_for_each_turn_and_marks_below() -> None:
    session = Session()
    session.add(use("Bash", "x", problem="exit 1"))
    session.add(cache_break=BREAK)
    session.add(outcome="upstream_error")
    session.add(agent_id="a", prompt_id="p1")
    session.add(prompt_id="p2")
    drawn = make_map(session.tell(), {1: "Bash x"})
    assert [(bar.number, bar.x, bar.width) for bar in drawn.bars] == [
        (1, 0, 25), (2, 25, 25), (3, 50, 25), (4, 75, 25)
    ]  # fmt: skip
    assert [bar.has_failure for bar in drawn.bars] == [True, False, False, False]
    assert [bar.has_break for bar in drawn.bars] == [False, True, False, False]
    assert [(mark.number, mark.x) for mark in drawn.marks] == [(1, 0), (2, 75)]
    assert [(each.x, each.width) for each in drawn.stretches] == [(50, 25)]
    assert [(each.event.step.id, each.x, each.shift) for each in drawn.crosses] == [(3, 50, 0)]
    assert drawn.bars[0].label == "Turn 1 · Bash x · $0.010 · context 1.0k"


def test_map_has_a_cross_for_each_call_that_failed() -> None:
    session = Session()
    session.add(outcome="upstream_error")
    session.add()
    session.add(outcome="upstream_error", agent_id="a")
    session.add(outcome="upstream_error")
    drawn = make_map(session.tell(), {})
    assert [(each.event.step.id, each.x) for each in drawn.crosses] == [
        (1, 0.5),
        (3, 99.5),
        (4, 99.5),
    ]
    assert [each.shift for each in drawn.crosses] == [0, 0, -7]


def test_bar_that_is_cut_shows_its_value() -> None:
    session = Session()
    for number in range(100):
        cents = 50.0 if number == 9 else 1.0
        session.add(cost_cents=cents, cents={"output": cents}, minute=number)
    drawn = make_map(session.tell(), {})
    assert [bar.value for bar in drawn.bars if bar.value] == ["$0.50"]
    assert drawn.bars[9].parts[0][1].y == TOP
    assert drawn.bars[8].parts[0][1].y == pytest.approx(GROUND - (GROUND - TOP) / 1.1, abs=0.1)


def test_number_of_a_prompt_makes_room_for_a_value_and_for_a_narrow_screen() -> None:
    session = Session()
    for number in range(100):
        cents = 50.0 if number == 41 else 1.0
        prompt = number // 4
        session.add(
            cost_cents=cents, cents={"output": cents}, minute=number, prompt_id=f"p{prompt}"
        )
    marks = make_map(session.tell(), {}).marks
    assert [mark.number for mark in marks] == list(range(1, 26))
    assert [mark.number for mark in marks if mark.is_bare] == [11]
    assert [mark.number for mark in marks if not mark.may_go] == list(range(1, 26, 2))


@settings(max_examples=20)  # each with hundreds of turns
@given(st.integers(0, 700), st.sampled_from([0.0, 1.0, 250.0]))
def test_bars_lie_side_by_side_within_the_drawing(count: int, cents: float) -> None:
    session = Session()
    for number in range(count):
        session.add(cost_cents=cents * number, cents={"output": cents * number}, minute=number / 60)
    drawn = make_map(session.tell(), {})
    assert len(drawn.bars) <= MAX_BARS
    assert drawn.turns == count
    assert sum(bar.width for bar in drawn.bars) == pytest.approx(100 if count else 0)
    assert all(
        part.y >= TOP and part.y + part.height <= GROUND + 1
        for bar in drawn.bars
        for _, part in bar.parts
    )
