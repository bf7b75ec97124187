"""The story of a session: prompts, lines, folds, subagents, events."""

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from dashboard.sessions.story.chapters import Chapter, Fold, Item, Thread
from dashboard.sessions.story.events import Event, format_pause
from dashboard.sessions.story.lines import Line
from dashboard.sessions.story.story import PAGE_TURNS, Story
from metering.token_counts import TokenCounts
from runtime import clock
from tests.dashboard.sessions.story.turns import BREAK, Session, at, use
from wire.request import CONTINUATION


def only(story: Story) -> Chapter:
    (chapter,) = story.chapters
    return chapter


def lines(items: tuple[Item, ...]) -> list[Line]:
    return [item for item in items if isinstance(item, Line)]


def events(story: Story, kind: str) -> list[Event]:
    return [event for event in story.events if event.kind == kind]


def calls_in(items: tuple[Item, ...]) -> list[int]:
    """Return the row ids of the calls that items stand for, in their order."""
    found: list[int] = []
    for item in items:
        if isinstance(item, Line):
            found.append(item.step.id)
        elif isinstance(item, Fold):
            found += [line.step.id for line in item.lines]
        elif isinstance(item, Thread):
            found += calls_in(item.items)
        elif item.kind == "fail" or item.number is not None:
            found.append(item.step.id)
    return found


def test_another_prompt_begins_with_another_id() -> None:
    session = Session()
    session.add(title_text="Mend it", prompt_id="a")
    session.add(title_text="Mend it", prompt_id="a")
    session.add(title_text="Mend it", prompt_id="b")
    first, second = session.tell().chapters
    assert (first.number, len(first.steps), second.number) == (1, 2, 2)
    assert (first.cents, second.cents) == (2.0, 1.0)


def test_without_ids_another_prompt_begins_with_other_words() -> None:
    session = Session()
    for title in ("Mend it", "Mend it", None, "Mend it", "Now this"):
        session.add(title_text=title, prompt_id=None)
    assert [each.title for each in session.tell().chapters] == ["Mend it", "Now this"]


def test_prompt_opens_with_its_first_turn_and_says_whether_its_title_is_cut() -> None:
    session = Session()
    session.add(title_text="Give this session a title", request_class="auxiliary")
    session.add(title_text="Mend the test that…", outcome="upstream_error")
    session.add(title_text="Mend the test that…")
    session.add(title_text="Mend it", prompt_id="p2", outcome="upstream_error")
    first, second = session.tell().chapters
    assert (first.opening.id, first.is_cut) == (3, True)
    assert (second.opening.id, second.is_cut) == (4, False)


def test_summary_that_a_client_goes_on_from_begins_no_prompt() -> None:
    session = Session()
    for title in ("Mend it", f"{CONTINUATION} that ran out of…", "Now this"):
        session.add(title_text=title, prompt_id=None)
    assert [each.title for each in session.tell().chapters] == ["Mend it", "Now this"]


def test_title_that_a_side_call_asks_for_begins_no_prompt() -> None:
    session = Session()
    session.add(title_text="Mend it", request_class="auxiliary", prompt_id=None)
    session.add(title_text="Mend it", prompt_id="a")
    session.add(title_text="Other", request_class="auxiliary", prompt_id="b")
    session.add(title_text="Mend it", prompt_id="a")
    chapter = only(session.tell())
    assert chapter.title == "Mend it"
    assert [line.kind for line in lines(chapter.items)] == ["side", "says", "side", "answer"]


def test_calls_that_failed_are_no_turns_and_have_no_number() -> None:
    session = Session()
    session.add()
    session.add(
        outcome="upstream_error", status_code=529, error_type="overloaded_error", cost_cents=0.0,
        minute=2, message_count=7,
    )  # fmt: skip
    session.add(minute=2.1, message_count=7)
    story = session.tell()
    assert [step.number for step in story.steps] == [1, None, 2]
    (event,) = events(story, "fail")
    assert event.words == (
        "529 overloaded_error from upstream; the client waited 5.0 s and sent turn 2 again. Not billed."
    )


def test_failed_call_that_is_not_sent_again_says_so() -> None:
    session = Session()
    outcome = "upstream_timeout"
    session.add(outcome=outcome, error_type=outcome, status_code=None, cost_cents=2.0)
    (event,) = events(session.tell(), "fail")
    assert event.words == "timed out; the client did not send it again. Billed: $0.020."


def test_tool_that_failed_marks_the_turn_that_used_it() -> None:
    session = Session()
    session.add(use("Bash", "pytest -q", problem="exit 1"), said="All tests.")
    session.add(use("Read", "a.py"), use("Edit", "b.py", problem="string not found", plus=1))
    first, second = lines(only(session.tell()).items)
    assert (first.deed.verb, first.deed.object, first.problem) == ("Bash", "pytest -q", "exit 1")
    assert first.deed.says == "All tests."
    assert (second.deed.verb, second.problem, second.deed.more) == (
        "Edit",
        "string not found",
        "after Read a.py",
    )


def test_older_call_failed_where_the_next_one_says_so() -> None:
    session = Session()
    session.add(stop_reason="tool_use")
    session.add(stop_reason="tool_use", previous_id=1, failed_tools="Bash,Edit")
    session.add(failed_tools="Bash", previous_id=77)
    story = session.tell()
    assert [step.failures for step in story.steps] == [2, 0, 1]
    assert lines(only(story).items)[0].problem == "failed, 2 failed"


def test_two_lookups_are_one_line() -> None:
    session = Session()
    session.add(use("Read", "/p/a/x.py", result_tokens=2_000))
    session.add(use("Grep", "is_night", result_tokens=100))
    session.add(use("Read", "/p/b/y.py"), use("LS", "/p/b"))
    session.add(use("Bash", "ls"))
    session.add(use("Read", "/p/b/z.py"))
    items = only(session.tell()).items
    fold, bash, read = items
    assert isinstance(fold, Fold)
    assert isinstance(bash, Line)
    assert isinstance(read, Line), "a single one is no fold"
    assert (fold.verb, fold.counts, fold.names) == (
        "Read",
        "2 files, 1 search, 1 folder",
        "x.py, y.py",
    )
    assert (fold.result_tokens, fold.took_ms, fold.cents) == (2_100, 3_000.0, 3.0)


def test_failure_is_never_inside_a_fold() -> None:
    session = Session()
    session.add(use("Read", "a"))
    session.add(use("Read", "b", problem="not found"))
    session.add(use("Read", "c"))
    assert not [item for item in only(session.tell()).items if isinstance(item, Fold)]


def test_break_stands_before_its_turn_and_ends_a_fold() -> None:
    session = Session()
    session.add(use("Read", "a"))
    session.add(use("Read", "b"), cache_break=BREAK)
    first, event, second = only(session.tell()).items
    assert isinstance(first, Line)
    assert isinstance(second, Line)
    assert isinstance(event, Event)
    assert event.price == "$0.41 more"
    assert event.words == (
        "The cache broke at the tools: “create_issue” was added. "
        "70,557 tokens were paid for again: $0.41 more than reading them."
    )
    assert [run.text for run in event.runs if run.is_bold] == ["70,557 tokens"]


def test_turn_is_dear_from_four_times_the_median_on_and_so_is_its_fold() -> None:
    session = Session()
    for cents in (1.0, 1.0, 1.0, 3.9, 4.0):
        session.add(use("Read", "a"), cost_cents=cents)
    (fold,) = only(session.tell()).items
    assert isinstance(fold, Fold)
    assert fold.is_dear
    assert [line.is_dear for line in fold.lines] == [False, False, False, False, True]


def test_subagent_is_where_it_began_with_what_it_gave_back() -> None:
    session = Session()
    session.add(use("Task", "Explore", result_tokens=1_400))
    session.add(use("Grep", "x"), agent_id="a", title_text="Find all callers")
    session.add(use("Bash", "rg", problem="exit 2"), agent_id="a")
    session.add(said="Two callers.", agent_id="a")
    session.add(said="Done.")
    task, thread, answer = only(session.tell()).items
    assert isinstance(task, Line)
    assert isinstance(thread, Thread)
    assert isinstance(answer, Line)
    assert (thread.kind, thread.task, thread.given_tokens) == ("Explore", "Find all callers", 1_400)
    assert (len(thread.turns), thread.failures, thread.cents) == (3, 1, 3.0)
    assert lines(thread.items)[-1].kind == "answer"


def test_subagents_are_nested_three_deep_at_most() -> None:
    session = Session()
    session.add()
    parent = None
    for name in "abcde":
        session.add(agent_id=name, parent_agent_id=parent)
        parent = name
    depths = {thread.agent_id: thread.depth for thread in session.tell().threads}
    assert depths == {"a": 1, "b": 2, "c": 3, "d": 3, "e": 3}


def test_agents_that_are_below_each_other_are_the_main_agents() -> None:
    session = Session()
    session.add()
    session.add(agent_id="a", parent_agent_id="b")
    session.add(agent_id="b", parent_agent_id="a")
    session.add(agent_id="c", parent_agent_id="c")
    assert [thread.depth for thread in session.tell().threads] == [1, 1, 1]


def test_pause_stands_at_the_end_of_the_prompt_before() -> None:
    session = Session()
    session.add(minute=1, prompt_id="a")
    session.add(minute=57, prompt_id="b")
    first, second = session.tell().chapters
    pause = first.items[-1]
    assert isinstance(pause, Event)
    assert pause.words == "56 min pause"
    assert not [item for item in second.items if isinstance(item, Event)]


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(5.4, "5 min"), (60, "1 h 00 min"), (125, "2 h 05 min"), (5_000, "3 days")],
)
def test_pause_is_told_in_whole_minutes(minutes: float, words: str) -> None:
    assert format_pause(minutes * 60_000) == words


def test_change_of_model_is_told_once() -> None:
    session = Session()
    session.add(model="sonnet")
    session.add(model="haiku", request_class="auxiliary")
    session.add(model="sonnet")
    session.add(model="opus")
    (event,) = events(session.tell(), "model")
    assert event.words == "From here on opus in place of sonnet"


def prompt_of(tokens: int) -> TokenCounts:
    return TokenCounts(input_tokens=0, cache_read_input_tokens=tokens, output_tokens=1)


def test_compaction_is_a_line_of_its_own() -> None:
    session = Session()
    session.add(tokens=prompt_of(131_000))
    session.add(
        request_class="compaction",
        tokens=prompt_of(131_000),
        cost_cents=20.0,
        cents={"cache_read": 13.1},
    )
    session.add(tokens=prompt_of(22_400), new_messages=-40)
    story = session.tell()
    (event,) = events(story, "compact")
    assert event.words == (
        "Compacted from 131k to 22.4k tokens by the client. Each turn after it costs about $0.109 less."
    )
    assert (event.price, event.number) == ("$0.20", 2)
    assert [line.step.id for line in lines(only(story).items)] == [1, 3]


def test_shortened_history_is_told_where_no_call_was_for_it() -> None:
    session = Session()
    session.add(tokens=prompt_of(50_000), cents={"cache_read": 5.0})
    session.add(tokens=prompt_of(10_000), new_messages=-9)
    (event,) = events(session.tell(), "compact")
    assert event.words.startswith("Compacted from 50.0k to 10.0k tokens")
    assert event.number is None


def test_turn_whose_result_was_compacted_away_says_where_it_goes_on() -> None:
    session = Session()
    session.add(use("Bash", "pytest", result_tokens=40), new_messages=2)
    session.add(use("Bash", "pytest"))
    session.add(use("Bash", "pytest"), new_messages=-3, prompt_id="p2")
    session.add(use("Bash", "pytest"), prompt_id="p2")
    story = session.tell()
    remarks = [line.remark for chapter in story.chapters for line in lines(chapter.items)]
    assert remarks == ["", "goes on after the compaction in turn 3", "", ""]


def test_prompts_of_one_answer_each_are_a_list() -> None:
    session = Session()
    for number in range(4):
        session.add(title_text=f"Ticket {number}", said="late", prompt_id=None)
    assert session.tell().is_list
    session.add(use("Bash", "ls"), title_text="More", prompt_id=None)
    assert not session.tell().is_list


def test_pages_are_cut_at_prompts() -> None:
    session = Session()
    for prompt, count in (("a", 300), ("b", 300), ("c", 100), ("d", 700), ("e", 10)):
        for _ in range(count):
            session.add(prompt_id=prompt, minute=len(session.turns) / 60)
    story = session.tell()
    assert [[each.number for each in page] for page in story.pages] == [[1], [2, 3], [4], [5]]
    assert all(
        sum(len(c.steps) for c in page) <= PAGE_TURNS or len(page) == 1 for page in story.pages
    )


def test_times_are_those_of_the_morning() -> None:
    assert clock.parse_instant(at(61)) - clock.parse_instant(at(0)) == timedelta(minutes=61)


_TOOLS = st.sampled_from(["Read", "Grep", "Bash", "Task", None])
_USES = st.lists(
    st.builds(
        use,
        _TOOLS,
        st.none() | st.sampled_from(["/p/a.py", "ls"]),
        problem=st.none() | st.just("exit 1"),
    ),
    max_size=3,
)
_TURNS = st.lists(
    st.tuples(
        _USES,
        st.sampled_from([None, "a", "b", "c", "d", "e"]),
        st.sampled_from([None, "a", "b", "c", "d", "e", "gone"]),
        st.sampled_from(["main", "auxiliary", "compaction", None]),
        st.sampled_from(["complete", "upstream_error", "client_disconnected"]),
        st.sampled_from([None, "p", "q"]),
        st.sampled_from([None, 0.0, 1.0, 9.0]),
    ),
    max_size=40,
)


@given(_TURNS)
def test_every_call_is_told_once_and_every_cent(turns: list[tuple]) -> None:  # type: ignore[type-arg]
    session = Session()
    for uses, agent, parent, kind, outcome, prompt, cents in turns:
        session.add(
            *uses,
            agent_id=agent,
            parent_agent_id=parent,
            request_class=kind,
            outcome=outcome,
            prompt_id=prompt,
            cost_cents=cents,
        )
    story = session.tell()
    told = [call for chapter in story.chapters for call in calls_in(chapter.items)]
    assert sorted(told) == [turn.id for turn in session.turns]
    whole = sum(turn.cost_cents or 0 for turn in session.turns)
    assert sum(chapter.cents for chapter in story.chapters) == pytest.approx(whole)
    assert all(thread.depth <= 3 for thread in story.threads)
    numbers = [step.number for step in story.turns]
    assert numbers == list(range(1, len(numbers) + 1))
