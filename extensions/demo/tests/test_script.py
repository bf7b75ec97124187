"""The files of conversations: each can be played, and is what it says."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest

from extensions.demo.calls import Call
from extensions.demo.library import FOLDER, read_table
from extensions.demo.script import Player, Step

NAMES = sorted(path.stem for path in (FOLDER / "conversations").glob("*.toml"))
AGENTS = {
    use["agent"]
    for name in NAMES
    for turn in read_table(f"conversations/{name}")["turn"]
    for use in turn.get("use", ())
    if "agent" in use
}
ORGANIZATION = read_table("organization")
OF_FILE = "program title model instructions tools max_tokens stream cache_ttl slots variants turn"
OF_TURN = (
    "summary user attach thinking blocks text use fails refusal hold_after leave_after pause_s compacted"
    " model instructions tools cache_ttl"
)
OF_USE = "name input result failed file agent"
# A name in a text that nothing has a value for.
SLOT = re.compile(r"\$[a-z_]+")


def list_calls(steps: Iterable[Step]) -> Iterator[Call]:
    for step in steps:
        if isinstance(step, Call):
            yield step
        else:
            for each in step:
                yield from list_calls(each)


@pytest.fixture
def player() -> Player:
    return Player(0)


@pytest.mark.parametrize("name", sorted({*NAMES} - AGENTS))
def test_every_variant_of_a_conversation_is_complete(player, name):
    for _ in read_table(f"conversations/{name}").get("variants", [{}]):
        for call in list_calls(player.play(name)):
            assert not SLOT.search(json.dumps([call.body, [each.content for each in call.replies]]))
            assert call.replies


def test_no_file_has_a_name_that_nothing_reads():
    for name in NAMES:
        table = read_table(f"conversations/{name}")
        uses = [use for turn in table["turn"] for use in turn.get("use", ())]
        for known, tables in ((OF_FILE, [table]), (OF_TURN, table["turn"]), (OF_USE, uses)):
            assert {key for each in tables for key in each} <= {*known.split()}, name


def test_each_conversation_is_played_some_time():
    lines = [each for line in ORGANIZATION["today"]["lines"] for each in line]
    played = {each if isinstance(each, str) else each["conversation"] for each in lines}
    for habit in ORGANIZATION["history"]["habits"]:
        played |= {*habit["conversations"]}
    assert played | AGENTS == {*NAMES}


def test_the_result_of_a_tool_is_sent_with_the_next_turn(player):
    calls = list(list_calls(player.play("holidays")))[1:]  # the first is for the title
    for before, after in pairwise(calls):
        *_, said, results = after.body["messages"]
        assert said["content"] == before.replies[-1].content
        used = [block["id"] for block in said["content"] if block["type"] == "tool_use"]
        assert [block["tool_use_id"] for block in results["content"]] == used


def test_subagents_are_steps_at_the_same_time_whose_last_text_is_their_result(player):
    steps = list(player.play("reminders"))
    [at] = [number for number, step in enumerate(steps) if not isinstance(step, Call)]
    agents = [list(list_calls(each)) for each in steps[at]]
    assert [len(calls) for calls in agents] == [3, 3]
    reports = [calls[-1].replies[-1].content[0]["text"] for calls in agents]
    assert [block["content"] for block in steps[at + 1].body["messages"][-1]["content"]] == reports
    ids = {call.headers["x-claude-code-agent-id"] for calls in agents for call in calls}
    sessions = {call.headers["x-claude-code-session-id"] for calls in agents for call in calls}
    assert (len(ids), len(sessions)) == (2, 1)


def test_an_agent_marks_its_system_prompt_and_the_last_two_messages_of_the_user(player):
    *_, last = list_calls(player.play("holidays"))
    assert last.body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    asked = [each for each in last.body["messages"] if each["role"] == "user"]
    marked = ["cache_control" in each["content"][-1] for each in asked]
    assert marked == [False] * (len(asked) - 2) + [True, True]


def test_what_a_turn_changes_holds_for_the_turns_after_it(player):
    calls = list(list_calls(player.play("labels")))[1:]
    assert [call.body["model"] for call in calls] == ["claude-opus-5-5"] * 3 + [
        "claude-sonnet-5"
    ] * 2


def test_failures_come_before_the_reply_and_those_that_are_asked_for_before_the_first():
    failed, *others = list_calls(Player(0).play("desk", fails=["rate_limited", "cut"]))
    assert [reply.status for reply in failed.replies] == [429, 200, 200]
    assert [reply.cut_after for reply in failed.replies] == [None, 0.5, None]
    assert others == []


def test_two_players_with_one_seed_make_the_same_calls_and_another_seed_another_variant():
    first, second, other = (
        list(list_calls(Player(seed).play("import-list"))) for seed in (1, 1, 2)
    )
    assert first == second
    assert first[1].content != other[1].content


def test_a_tool_requires_all_arguments_that_it_has():
    schemas = [each.get("input_schema") for each in read_table("library")["tools"].values()]
    properties = [schema and list(schema["properties"]) for schema in schemas]
    assert [schema and schema["required"] for schema in schemas] == properties
