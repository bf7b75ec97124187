"""Why a cache broke, and what is said about it."""

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations.diagnosis import CacheReport
from conversations.wording import MAX_DETAIL_CHARS
from tests.conversations.sessions import (
    HOUR,
    LONG,
    MARKER,
    UNMARKED,
    Session,
    assistant,
    conversation,
    mark_last,
    request,
    text,
    tool,
    user,
)

FULL = {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 20_000}
AGAIN = FULL | {"cache_creation_input_tokens": 21_000}
# The system prompt was read, and the messages were not.
PART = FULL | {"cache_read_input_tokens": 15_000, "cache_creation_input_tokens": 6_000}


def find(before: dict[str, Any], now: dict[str, Any], gap_s: float = 10, **fields: Any) -> Any:
    """Return the break of a request after another one, with an upstream that reads by its rules."""
    session = Session()
    session.send(before)
    return session.send(now, gap_s, **fields)


def judge(before: dict[str, Any], now: dict[str, Any], gap_s: float = 10, **fields: Any) -> Any:
    """Return the break of a request that read nothing of what the one before had written."""
    session = Session()
    session.send(before, counts=FULL)
    return session.send(now, gap_s, **({"counts": AGAIN} | fields))


def shuffle_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shuffle_keys(value[name]) for name in reversed(value)}
    return [shuffle_keys(each) for each in value] if isinstance(value, list) else value


def test_an_edited_word_is_named_with_its_message():
    found = find(request(*conversation(3)), request(*conversation(4, "An American ship. ")))
    assert found.cause == "messages"
    assert found.detail == "The cache broke at message 1: “A British” became “An American”."


@pytest.mark.parametrize(
    ("before", "now", "clause"),
    [
        ("the British way", "the American way", "“British” became “American”"),
        ("the way", "the American way", "“American” was added"),
        ("the British way", "the way", "“British” was removed"),
        ("ends so", "ends so and on", "“and on” was added"),
        ("Höhe über NN", "Höhe unter NN", "“über” became “unter”"),
        ("x" * 90_000, "x" * 90_000 + "y", f"“{'x' * 20}” became “{'x' * 20}y”"),
    ],
)
def test_the_words_that_differ_are_said_and_no_others(before, now, clause):
    last = conversation(3)[1:]
    first = request(user(text(before)), *last, **UNMARKED)
    found = judge(first, request(user(text(now)), *last, *last, **UNMARKED))
    assert found.detail == f"The cache broke at message 1: {clause}."


@pytest.mark.parametrize(
    ("before", "now", "place", "clause"),
    [
        (
            {"effort": "low"},
            {"effort": "high"},
            "the settings of message 1",
            '“{"effort":"low"}” became “{"effort":"high"}”',
        ),
        ({}, {"effort": "high"}, "the settings of message 1", "settings was added"),
    ],
)
def test_settings_of_an_earlier_message_that_change_are_named(before, now, place, clause):
    first, *rest = conversation(3)
    one, other = (
        request(first | ({"output_config": settings} if settings else {}), *rest, **UNMARKED)
        for settings in (before, now)
    )
    found = judge(one, other)
    assert found.cause == "messages"
    assert found.detail == f"The cache broke at {place}: {clause}."


def test_long_differences_are_cut():
    before, now = conversation(3, "old " * 5_000), conversation(4, "new " * 5_000)
    found = judge(request(*before, **UNMARKED), request(*now, **UNMARKED))
    assert found.detail.startswith("The cache broke at message 1: “old old old")
    assert len(found.detail) < 150


def test_a_change_of_the_system_prompt_names_the_block():
    now = request(*conversation(4))
    now["system"][0]["text"] = "Be verbose."
    found = find(request(*conversation(3)), now)
    assert (found.cause, found.read_tokens) == ("system", 0)
    assert found.detail == "The cache broke at system block 1: “brief.” became “verbose.”."


@pytest.mark.parametrize(
    ("tools", "cause", "clause"),
    [
        ([tool("Read")], "tools", "“Bash” was removed"),
        ([], "tools", "“Read” and 1 more were removed"),
        (
            [tool("Read"), tool("Bash", "Runs a command."), tool("Web")],
            "tools",
            "“Web” was added",
        ),
        ([tool("Bash", "Runs a command."), tool("Read")], "tools", "“Read” was moved"),
        (
            [tool("Read"), tool("Bash", "Runs a script.")],
            "tools",
            "“Bash” was changed",
        ),
        ([tool("Read"), shuffle_keys(tool("Bash", "Runs a command."))], "order", "keys of “Bash”"),
    ],
)
def test_a_change_of_the_tools_names_them(tools, cause, clause):
    found = find(request(*conversation(3)), request(*conversation(4), tools=tools))
    assert found.cause == cause
    assert clause in found.detail.replace("“Bash” was changed: “command.", "“Bash” was changed")
    assert found.detail.startswith("The cache broke at the ")


def test_a_tool_after_a_marker_in_the_tools_leaves_their_prefix_alone():
    marked = [tool("Read"), tool("Bash") | {"cache_control": MARKER}]
    more = [tool("Read"), tool("Bash"), tool("Web") | {"cache_control": MARKER}]
    before = {"model": "claude-sonnet-4-5", "tools": marked, "messages": conversation(3)}
    found = judge(before, {**before, "tools": more, "messages": conversation(4)})
    assert found.cause == "unknown"


def test_shuffled_keys_in_the_input_of_a_tool_call_are_another_order():
    call = {
        "type": "tool_use",
        "id": "t1",
        "name": "Bash",
        "input": {"a": 1, "b": [{"c": 2, "d": 3}]},
    }
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    before = [*conversation(1), assistant(call), user(result)]
    now = [*conversation(1), assistant(shuffle_keys(call)), user(result), *conversation(3)[1:]]
    found = find(request(*before, *conversation(2)[1:]), request(*now), counts=AGAIN)
    assert found.cause == "unknown"  # the markers before it should have been read
    bare = {"model": "claude-sonnet-4-5"}
    found = judge(mark_last(bare | {"messages": before}), mark_last(bare | {"messages": now}))
    assert found.cause == "order"
    assert found.detail == "The cache broke at message 2: the order of the keys changed."


def test_of_two_changes_the_one_at_the_earlier_level_is_the_cause():
    now = request(*conversation(4, "An American ship. "), tools=[tool("Read")])
    assert find(request(*conversation(3)), now).cause == "tools"
    faster = request(*conversation(4, "An American ship. "), speed="fast")
    assert judge(request(*conversation(3)), faster).cause in ("system", "unknown")


@pytest.mark.parametrize(
    ("setting", "cause", "clause"),
    [
        ({"speed": "fast"}, "system", "the speed changed from “standard” to “fast”"),
        (
            {
                "tools": [
                    tool("Read"),
                    tool("Bash", "Runs a command."),
                    {"type": "web_search_20250305", "name": "web_search"},
                ]
            },
            "system",
            "",
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
            "system",
            "the output format changed.",
        ),
        (
            {"tool_choice": {"type": "any"}},
            "messages",
            "the tool choice changed from “auto” to “any”",
        ),
        (
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            "messages",
            "parallel tool use changed from “allowed” to “off”",
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 4000}},
            "messages",
            "thinking changed from “disabled” to “enabled (4,000 tokens)”",
        ),
        (
            {"output_config": {"effort": "low"}},
            "messages",
            "the effort changed from “high” to “low”",
        ),
    ],
)
def test_settings_lose_the_cache_of_their_level(setting, cause, clause):
    before = request(*conversation(3), **UNMARKED)
    found = judge(before, request(*conversation(4), **UNMARKED | setting))
    assert found.cause == cause
    assert clause in found.detail


@pytest.mark.parametrize(
    "setting",
    [
        {"speed": "standard"},
        {"tool_choice": {"type": "auto"}},
        {"thinking": {"type": "disabled"}},
        {"output_config": {"effort": "high"}},
        {
            "max_tokens": 9,
            "metadata": {"user_id": "x"},
            "stop_sequences": ["a"],
            "temperature": 0.5,
        },
        {"stream": True, "service_tier": "auto", "diagnostics": {"previous_message_id": None}},
    ],
)
def test_a_default_that_is_stated_and_what_is_no_part_of_the_prompt_are_no_cause(setting):
    found = judge(request(*conversation(3)), request(*conversation(4), **setting))
    assert found.cause == "unknown"


def document(*, cites: bool) -> dict[str, Any]:
    source = {"type": "text", "media_type": "text/plain", "data": "Ships. " * 900}
    return {"type": "document", "source": source, "citations": {"enabled": cites}}


def test_citations_lose_the_system_prompt_though_they_stand_in_a_message():
    last = conversation(3)[1:]
    before = request(user(document(cites=False)), *last, **UNMARKED)
    found = judge(before, request(user(document(cites=True)), *last, *last, **UNMARKED))
    assert found.cause == "system"
    assert found.detail == "The cache broke because citations changed from “off” to “on”."


def image(data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def test_an_image_encoded_anew_is_a_change_of_its_message_and_a_new_one_of_all_messages():
    before = request(*conversation(2), assistant(text("a")), user(image("AAAA" * 9_000)))
    anew = request(
        *conversation(2), assistant(text("a")), user(image("BBBB" * 9_000)), *conversation(3)[1:]
    )
    found = judge(before, anew, counts=PART)
    assert (found.cause, found.detail) == (
        "messages",
        "The cache broke at message 5: an image changed.",
    )
    found = judge(
        request(*conversation(3)),
        request(*conversation(3), assistant(text("a")), user(image("AAAA"))),
    )
    assert (found.cause, found.detail) == (
        "messages",
        "An image was added, which loses the cache of all messages.",
    )


@pytest.mark.parametrize(("gap_s", "is_break"), [(299, False), (300, False), (301, True)])
def test_the_cache_expires_after_its_lifetime_and_not_at_its_end(gap_s, is_break):
    found = find(request(*conversation(3)), request(*conversation(4)), gap_s)
    assert (found is not None) == is_break
    if is_break:
        assert found.cause == "expired"
        assert (
            found.detail
            == "The cache had expired: it was last used 5 min before, and is kept for five minutes."
        )
        assert found.gap_ms == 301_000


def test_a_night_between_two_turns_and_a_change_as_well_is_still_expired():
    now = request(*conversation(4, "An American ship. "))
    found = find(request(*conversation(3)), now, 9 * 3600)
    assert found.cause == "expired"
    assert found.detail == (
        "The cache had expired: it was last used 9 h 0 min before, and is kept for five minutes."
        " The messages had changed as well."
    )


def hourly(turns: int) -> dict[str, Any]:
    body = request(*conversation(turns))
    body["system"][1]["cache_control"] = HOUR
    return body


def test_of_an_hour_of_system_prompt_and_five_minutes_of_tail_only_the_tail_is_missed():
    session = Session()
    session.send(hourly(20))
    found = session.send(hourly(21), 600)
    assert found.read_tokens > 4_000
    assert found.tokens == session.calls[0].summary.prefix_tokens - found.read_tokens
    assert found.cause == "expired"
    assert "its last part is kept for five minutes" in found.detail
    assert session.send(hourly(22), 7200).detail.endswith("is kept for one hour.")


def test_a_sibling_that_read_the_prefix_renewed_it():
    session = Session()
    first = request(*conversation(3))
    session.send(first, agent_id=None)
    session.send(
        request(*conversation(3), assistant(text("a")), user(text("b"))), 200, agent_id="sub"
    )
    found = session.send(request(*conversation(4)), 200, counts=AGAIN, agent_id=None)
    assert found.cause == "unknown"
    assert found.gap_ms == 200_000


def test_a_request_without_a_marker_or_with_an_earlier_one_says_so():
    bare = request(*conversation(4), system=[text("Be brief."), text(LONG)])
    bare["messages"][-1]["content"][-1].pop("cache_control")
    before = request(*conversation(3), system=[text("Be brief."), text(LONG)])
    found = find(before, bare)
    assert (found.cause, found.detail) == (
        "marker",
        "The request has no cache breakpoint; the one before had.",
    )
    early = copy.deepcopy(bare)
    early["messages"][0]["content"][0]["cache_control"] = MARKER
    found = find(before, early)
    assert (found.cause, found.detail) == (
        "marker",
        "The last cache breakpoint stands earlier than in the call before.",
    )


def turn_of(blocks: int) -> list[dict[str, Any]]:
    return [assistant(*(text(f"Step {n}.") for n in range(blocks - 1))), user(text("And then?"))]


@pytest.mark.parametrize(("blocks", "is_break"), [(19, False), (21, True)])
def test_upstream_looks_back_over_twenty_blocks(blocks, is_break):
    found = find(
        request(*conversation(3), **UNMARKED),
        request(*conversation(3), *turn_of(blocks), **UNMARKED),
    )
    assert (found is not None) == is_break
    if is_break:
        assert found.cause == "marker"
        assert "stands 21 blocks after the last one" in found.detail


def test_runs_of_tool_calls_and_of_their_results_are_one_position_each():
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}} for n in range(30)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "x"} for n in range(30)]
    before = request(*conversation(3), **UNMARKED)
    now = request(*conversation(3), assistant(*calls), user(*results), **UNMARKED)
    assert find(before, now) is None
    assert judge(before, now).cause == "unknown"


def test_automatic_caching_marks_the_last_block_that_can_carry_a_marker():
    body: dict[str, Any] = {"model": "claude-sonnet-4-5", "system": LONG, "cache_control": MARKER}
    before, now = body | {"messages": conversation(3)}, body | {"messages": conversation(4)}
    assert judge(before, now).cause == "unknown"
    del now["cache_control"]
    assert judge(before, now).cause == "marker"


def test_equal_requests_in_time_have_an_unknown_cause_that_says_so():
    found = judge(request(*conversation(3)), request(*conversation(4)), 60)
    assert found.cause == "unknown"
    assert found.detail == (
        "Prompt, settings and model are the same, and the prefix was last used 60 s before."
    )
    found = judge(request(*conversation(3)), request(*conversation(4)), credential_hmac="other")
    assert "with another credential" in found.detail


def test_a_marker_before_the_change_that_was_not_read_contradicts_it():
    now = request(*conversation(4, "An American ship. "))
    found = judge(request(*conversation(3)), now)
    assert found.cause == "unknown"
    assert "still it was not read" in found.detail
    # Where that part was read, the change explains the rest.
    assert judge(request(*conversation(3)), now, counts=PART).cause == "messages"


def thinking_turns(last: dict[str, Any]) -> list[dict[str, Any]]:
    thought = {"type": "thinking", "thinking": "Let me think. " * 300, "signature": "s" * 900}
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    return [*conversation(1), assistant(thought, call), user(result), assistant(text("So.")), last]


@pytest.mark.parametrize(
    ("model", "last", "cause"),
    [
        ("claude-sonnet-4-5", user(text("Next?")), "messages"),
        ("claude-sonnet-4-6", user(text("Next?")), "unknown"),
        (
            "claude-sonnet-4-5",
            user({"type": "tool_result", "tool_use_id": "t", "content": "x"}),
            "unknown",
        ),
    ],
)
def test_thinking_that_the_server_drops_breaks_the_messages(model, last, cause):
    messages = thinking_turns(last)
    before = request(*messages[:-2], model=model)
    part = AGAIN | {"cache_read_input_tokens": 10_000}
    found = judge(before, request(*messages, model=model), counts=part)
    assert found.cause == cause
    if cause == "messages":
        assert found.detail.startswith(
            "Earlier thinking was dropped by the server, first in message 2"
        )


def with_attribution(body: dict[str, Any], token: str) -> dict[str, Any]:
    block = text(f"x-anthropic-billing-header: cc_version=2; cch={token};")
    return body | {"system": [block, *body["system"]]}


def test_the_attribution_block_counts_only_where_upstream_does_not_remove_it():
    before = with_attribution(request(*conversation(3)), "a")
    now = with_attribution(request(*conversation(4)), "b")
    assert judge(before, now).cause == "unknown"
    session = Session()
    session.send(before, counts=FULL, is_first_party=False)
    found = session.send(now, counts=AGAIN, is_first_party=False)
    assert found.cause == "system"
    assert "attribution block of Claude Code" in found.detail


def test_upstreams_diagnosis_wins_over_ours_and_both_are_said():
    now = request(*conversation(4, "An American ship. "))
    theirs = CacheReport(reason="system_changed", cause="system", missed_tokens=19_000)
    found = judge(request(*conversation(3)), now, counts=PART, report=theirs)
    assert found.cause == "system"
    assert found.detail.startswith(
        "Upstream says that the system prompt changed. The cache broke at"
    )
    assert (found.upstream_reason, found.upstream_tokens) == ("system_changed", 19_000)
    same = CacheReport(reason="messages_changed", cause="messages")
    assert judge(request(*conversation(3)), now, counts=PART, report=same).detail.startswith("The")
    late = judge(request(*conversation(3)), now, 900, report=theirs)
    assert late.cause == "expired"
    lost = CacheReport(reason="previous_message_not_found")
    found = judge(request(*conversation(3)), request(*conversation(4)), report=lost)
    assert (found.cause, found.upstream_reason) == ("unknown", "previous_message_not_found")
    found = judge(request(*conversation(3)), request(*conversation(4)), report=theirs)
    assert (found.cause, found.detail) == (
        "system",
        "Upstream says that the system prompt changed.",
    )


def test_a_diagnosis_alone_makes_no_break():
    theirs = CacheReport(reason="tools_changed", cause="tools", missed_tokens=19_000)
    read = FULL | {"cache_read_input_tokens": 20_000, "cache_creation_input_tokens": 500}
    now = request(*conversation(4), tools=[])
    assert judge(request(*conversation(3)), now, counts=read, report=theirs) is None


def test_where_no_text_is_kept_no_text_is_said():
    session = Session()
    secret = conversation(3, "The password is swordfish. ")
    session.send(request(*secret), counts=FULL, keeps_bodies=False)
    found = session.send(request(*secret), counts=AGAIN, keeps_bodies=False)
    assert found.detail == "The request or the one before is not kept or cannot be read."
    found = session.send(request(*secret), 4000, counts=AGAIN, keeps_bodies=False)
    assert (found.cause, found.detail) == (
        "expired",
        "The cache had expired: it was last used 66 min before, and is kept for five minutes.",
    )


def test_names_that_cannot_be_stored_are_cleaned():
    tools = [tool("Read"), tool("Bash", "Runs a command."), tool("\ud800\0")]
    found = find(request(*conversation(3)), request(*conversation(4), tools=tools))
    assert found.detail == "The cache broke at the tools: “?�” was added."


def test_a_block_that_was_added_or_removed_is_said_to_be_so():
    reminder = text("<system-reminder>Look at the list.</system-reminder>")
    base = conversation(3)
    with_reminder = copy.deepcopy(base)
    with_reminder[0]["content"].insert(0, reminder)
    found = judge(request(*base), request(*with_reminder, *conversation(4)[5:]), counts=PART)
    assert found.detail == "The cache broke at message 1, block 1: a text was added."
    found = judge(request(*with_reminder), request(*base, *conversation(4)[5:]), counts=PART)
    assert found.detail == "The cache broke at message 1: a text was removed."


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "content", "role", "cache_control", "name", "input", "ttl", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "tools",
    "system",
    "thinking",
    "tool_choice",
    "output_config",
    "cache_control",
    "mcp_servers",
]


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.lists(JSON, max_size=3), JSON)
def test_odd_requests_never_raise(fields, messages, block):
    session = Session()
    before = {"model": "claude-sonnet-4-5", "messages": [*conversation(2), *messages]} | fields
    now = copy.deepcopy(before) | {"messages": [user(block), *before["messages"][1:], user(block)]}
    for body in (before, now):
        session.send(body, counts=FULL)
    found = session.calls[-1].found
    if found is not None:
        assert len(found.detail) <= MAX_DETAIL_CHARS
        assert found.detail.encode()
