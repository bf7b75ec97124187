from dataclasses import replace
from typing import Any

from conversations.recent_calls import (
    KEPT,
    KEPT_WITHOUT_SESSION,
    MAX_AGENTS,
    RecentCalls,
    list_successors,
)
from conversations.summaries import CallSummary, PromptTokens


def call(number: int, **fields: Any) -> CallSummary:
    values: dict[str, Any] = {
        "entry_id": f"e{number:04}",
        "began_at": float(number),
        "answered_at": number + 0.5,
        "session_id": "s",
        "tokens": PromptTokens(uncached=10),
    }
    return CallSummary(**(values | fields))


def ids(calls: list[CallSummary]) -> list[str]:
    return [each.entry_id for each in calls]


def test_the_latest_calls_of_each_agent_are_candidates():
    recent = RecentCalls()
    for number in range(40):
        recent.add("o", call(number, agent_id="a" if number % 2 else None))
    found = recent.list_candidates("o", call(50))
    assert len(found) == 2 * KEPT
    assert min(each.began_at for each in found) == 40 - 2 * KEPT
    assert recent.total_bytes == sum(each.memory_bytes for each in found)


def test_sessions_and_organisations_are_apart():
    recent = RecentCalls()
    recent.add("o", call(1))
    assert recent.list_candidates("other", call(2)) == []
    assert recent.list_candidates("o", call(2, session_id="t")) == []
    assert recent.list_candidates("o", call(2, session_id=None)) == []


def test_programs_without_a_session_have_more_calls_kept_by_credential():
    recent = RecentCalls()
    for number in range(100):
        recent.add("o", call(number, session_id=None, credential_hmac="c"))
    assert len(recent.list_candidates("o", call(200, session_id=None, credential_hmac="c"))) == (
        KEPT_WITHOUT_SESSION
    )
    assert recent.list_candidates("o", call(200, session_id=None, credential_hmac="d")) == []


def test_a_call_that_comes_late_names_those_that_may_continue_it():
    recent = RecentCalls()
    for number in (1, 3, 5):
        recent.add("o", call(number))
    others = recent.list_candidates("o", call(2))
    assert ids(list_successors(call(2), others)) == ["e0003", "e0005"]
    assert ids(list_successors(call(2, answered_at=4.0), others)) == ["e0005"]
    assert list_successors(call(9), others) == []
    assert list_successors(call(2, answered_at=None), others) == []


def test_a_call_that_is_added_again_takes_its_own_place():
    recent = RecentCalls()
    recent.add("o", call(1))
    size = recent.total_bytes
    recent.add("o", replace(call(1), model="m"))
    assert recent.total_bytes == size
    assert [each.model for each in recent.list_candidates("o", call(2))] == ["m"]


def test_memory_is_bounded_whatever_names_clients_invent():
    recent = RecentCalls(max_bytes=100_000)
    for number in range(2_000):
        recent.add("o", call(number, session_id=f"s{number}"))
        assert recent.total_bytes <= 100_000
    assert recent.list_candidates("o", call(9_999, session_id="s0")) == []
    assert len(recent.list_candidates("o", call(9_999, session_id="s1999"))) == 1
    agents = RecentCalls()
    for number in range(100):
        agents.add("o", call(number, agent_id=f"a{number}"))
    kept = agents.list_candidates("o", call(200))
    assert len(kept) == MAX_AGENTS
    assert agents.total_bytes == sum(each.memory_bytes for each in kept)
