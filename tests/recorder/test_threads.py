"""Message threads: requests that send only what is new, judged as if they sent all of it."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from recorder import threads
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.conversations.sessions import LONG, assistant, mark_last, request, text, tool, user
from tests.metering.responses import event
from tests.recorder.conversations import Recording

WORDS = "It sails. " * 400  # some 1,000 tokens
RESULT = user({"type": "tool_result", "tool_use_id": "toolu_1", "content": WORDS})
CALL = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}
MODEL = "claude-sonnet-4-5"
# That of ``request``, as upstream has it for a request that does not send it.
UNMARKED: dict[str, Any] = {"system": [text("Be brief."), text(LONG)]}


@pytest.fixture
def recording(tmp_path):
    recording = Recording(tmp_path)
    yield recording
    recording.close()


class Client:
    """A client that uses threads, and the upstream that has its messages.

    ``heads`` are fields of the head that the proxy writes for each of its calls."""

    def __init__(self, recording: Recording, **heads: Any) -> None:
        self.recording = recording
        self.heads = {"session_id": None} | heads
        self.messages: list[dict[str, Any]] = []
        self.previous = ""
        self._held: list[tuple[dict[str, Any], float, dict[str, Any]]] = []

    def create(self, *messages: dict[str, Any], **changes: Any) -> str:
        """Send all messages; return the id of the answer."""
        self.messages = list(messages)
        body = request(*messages)
        return self._send(body | {"thread": {"type": "create"}}, body, **changes)

    def go_on(
        self,
        *messages: dict[str, Any],
        settings: Any = None,
        previous: str | None = None,
        **changes: Any,
    ) -> str:
        """Send messages that follow the last answer; return the id of that to them."""
        self.messages += messages
        step = {"type": "continue", "previous_message_id": previous or self.previous}
        body = {"model": MODEL, "max_tokens": 1000, "thread": step, "messages": list(messages)}
        if messages:
            body = mark_last(body)
        return self._send(body | (settings or {}), request(*self.messages, **UNMARKED), **changes)

    def _send(
        self,
        body: dict[str, Any],
        whole: dict[str, Any],
        *,
        content: Any = None,
        after_s: float = 10.0,
        **changes: Any,
    ) -> str:
        recording = self.recording
        if "answer" not in changes:
            answer = recording.answer(whole, recording.at_s + after_s)
            answer["content"] = [text("Aye.")] if content is None else content
            answer["id"] = f"msg_{recording.at_s:.0f}"
            changes["answer"] = answer
        changes = self.heads | changes
        if changes["answer"] is not None:
            self.previous = changes["answer"]["id"]
            self.messages.append(assistant(*changes["answer"]["content"]))
        if changes.pop("held", False):
            recording.at_s += after_s
            self._held.append((body, recording.at_s, changes))
            return self.previous
        record = changes.pop("record", True)
        recording.spool(body, after_s, **changes)
        if record:
            recording.record()
        return self.previous

    def release(self) -> None:
        """Let the calls arrive that were ``held`` on their way, in their order."""
        while self._held:
            body, at_s, changes = self._held.pop(0)
            self.recording.spool(body, at_s=at_s, **changes)
            self.recording.record()


@pytest.fixture
def client(recording):
    return Client(recording)


def turn(number: int) -> dict[str, Any]:
    return user(text(f"Question {number}: {WORDS}"))


def previous(recording: Recording) -> list[str | None]:
    return [each[1] for each in recording.judged()]


def test_a_thread_is_one_session_and_breaks_nothing(recording, client):
    client.create(turn(1))
    client.go_on(turn(2))
    client.go_on(turn(3))
    assert recording.judged() == [
        ("call-1", None, None),
        ("call-2", "call-1", None),
        ("call-3", "call-2", None),
    ]
    assert {row["session"] for row in recording.read()} == {"unnamed-1"}
    assert recording.read("select thread, thread_previous_id from usage order by id") == [
        {"thread": "create", "thread_previous_id": None},
        {"thread": "continue", "thread_previous_id": "msg_0"},
        {"thread": "continue", "thread_previous_id": "msg_10"},
    ]


def test_a_break_of_a_thread_is_explained_by_whole_prompts(recording, client):
    """The request has no tools and no system prompt, which is no reason."""
    client.create(turn(1))
    client.go_on(turn(2))
    client.go_on(turn(3), after_s=400.0)
    assert [each[2] for each in recording.judged()] == [None, None, "expired"]
    client.go_on(turn(4), settings={"model": "claude-opus-4-8"}, answer=_of_opus(recording))
    assert recording.judged()[3][1:] == ("call-3", "model")


def _of_opus(recording):
    body = request(turn(1), turn(2), turn(3), turn(4))
    return recording.answer(body | {"model": "claude-opus-4-8"}) | {"content": [text("Aye.")]}


def test_a_setting_that_breaks_the_cache_is_named(recording, client):
    client.create(turn(1))
    client.go_on(turn(2))
    body = request(*client.messages, turn(3), model="claude-sonnet-4-5", **UNMARKED)
    nothing_read = recording.answer(body | {"model": "another"}) | {"model": MODEL, "content": []}
    choice = {"tool_choice": {"type": "any"}}
    client.go_on(turn(3), settings=choice, answer=nothing_read)
    assert recording.judged()[2][1:] == ("call-2", "messages")
    (found,) = recording.read("select found_by, detail from cache_breaks")
    assert found["found_by"] == "upstream"
    assert "tool choice" in found["detail"]
    assert "removed" not in found["detail"]


def test_after_a_restart_a_long_thread_is_read_again(recording, client, monkeypatch):
    monkeypatch.setattr(threads, "MAX_KEPT", 20)
    client.create(turn(1))
    for number in range(29):
        client.go_on(user(text(f"{number}?")), record=False, answer=nothing_read(f"{number}"))
    client.go_on(user(text("29?")))
    recording.restart()
    client.go_on(turn(2), after_s=400.0)
    assert recording.judged()[-1] == ("call-32", "call-31", "expired")
    recording.restart()
    other = {"tool_choice": {"type": "any"}}  # which is told from whole prompts alone
    client.go_on(turn(3), settings=other, answer=nothing_read("last"))
    assert recording.judged()[-1] == ("call-33", "call-32", "messages")
    assert previous(recording)[1:] == [f"call-{number}" for number in range(1, 33)]


def test_a_call_is_compared_with_that_of_its_parent_in_any_form(recording, client):
    """After an hour the client sends everything anew, answers as it remembers them."""
    client.create(turn(1), content=[text("See."), CALL | {"caller": {"type": "direct"}}])
    client.go_on(RESULT)
    known = client.messages
    known[1] = {"role": "assistant", "content": [text("See.") | {"citations": None}, CALL]}
    client.create(*known, turn(2))
    assert previous(recording) == [None, "call-1", "call-2"]


def test_a_continue_that_fails_is_nobodys_predecessor(recording, client):
    client.create(turn(1))
    client.go_on(turn(2), status_code=404, answer=None)
    del client.messages[-1]
    client.create(*client.messages, turn(2))
    client.go_on(turn(3))
    assert previous(recording) == [None, "call-1", "call-1", "call-3"]


def test_of_two_continues_of_one_call_each_follows_it(recording, client):
    answer = client.create(turn(1))
    client.go_on(turn(2), status_code=400, answer=None)
    del client.messages[-1]
    client.go_on(turn(2), previous=answer)
    client.go_on(turn(3))
    assert previous(recording) == [None, "call-1", "call-1", "call-3"]


def test_a_call_that_is_stored_before_its_parent_is_judged_again(recording, client):
    client.create(turn(1))
    client.go_on(turn(2), after_s=5.0, held=True)
    client.go_on(turn(3), after_s=15.0)
    assert previous(recording) == [None, None]
    client.release()
    assert recording.judged() == [
        ("call-1", None, None),
        ("call-3", "call-1", None),
        ("call-2", "call-3", None),
    ]
    assert len({row["session"] for row in recording.read()}) == 1


def test_a_parent_that_is_stored_late_corrects_all_calls_after_it(recording, client, monkeypatch):
    """Their history has been unknown: few messages, no title, no reason, and a session of their own."""
    monkeypatch.setattr(threads, "MAX_KEPT", 20)
    client.create(turn(1), content=[CALL])
    client.go_on(RESULT, held=True)
    for number in range(39):
        client.go_on(RESULT, answer=nothing_read(f"link_{number}"))
    recording.record()
    full = recording.answer(request(*client.messages, RESULT, **UNMARKED)) | {"content": []}
    client.go_on(RESULT, answer=full | {"id": "msg_full"})
    client.go_on(turn(2), settings={"tool_choice": {"type": "any"}}, answer=nothing_read("last"))
    assert len({row["session"] for row in recording.read()}) == 2
    (unknown,) = recording.read("select cause, detail from cache_breaks")
    assert unknown == {
        "cause": "unknown",
        "detail": "The request or the one before is not kept or cannot be read.",
    }
    client.release()
    rows = recording.read(
        "select message_count, tool_count, title_text from usage order by created_at"
    )
    assert [row["message_count"] for row in rows] == [*range(1, 87, 2)]
    assert {row["tool_count"] for row in rows} == {2}
    assert {row["title_text"][:10] for row in rows} == {"Question 1", "Question 2"}
    assert {row["session"] for row in recording.read()} == {"unnamed-1"}
    sums = recording.read("select session_id, calls, cache_breaks from sessions")
    assert sums == [{"session_id": "unnamed-1", "calls": 43, "cache_breaks": 2}]
    _of_first, found = recording.read("select cause, detail from cache_breaks order by tokens")
    assert found["cause"] == "messages"
    assert "tool choice" in found["detail"]


def nothing_read(name: str) -> dict[str, Any]:
    """Return an answer whose prompt is not in the cache."""
    usage = {"input_tokens": 400_000, "output_tokens": 5}
    shape: dict[str, Any] = {
        "type": "message",
        "model": MODEL,
        "stop_reason": "end_turn",
        "content": [],
    }
    return shape | {"id": f"msg_{name}", "usage": usage}


def test_a_parent_of_another_organisation_is_none(recording, client):
    client.create(turn(1), owner="other")
    client.go_on(turn(2))
    assert previous(recording) == [None]


def test_a_parent_that_was_removed_is_none_and_nothing_is_guessed(recording, client):
    client.create(turn(1))
    with TraceDatabase(trace_path(recording.data_dir, "org")) as traces:
        traces.prune(before="9999", pause=lambda _: None)
    recording.restart()
    client.go_on(turn(2))
    client.go_on(turn(3))
    assert previous(recording) == [None, "call-2"]


def test_ids_alone_are_enough_where_no_bodies_are_kept(recording):
    client = Client(recording, metadata_only=True)
    client.create(turn(1), thread="create")
    for number, after_s in ((2, 10.0), (3, 400.0)):
        client.go_on(
            turn(number), thread="continue", thread_previous_id=client.previous, after_s=after_s
        )
        recording.restart()
    assert recording.judged()[1:] == [("call-2", "call-1", None), ("call-3", "call-2", "expired")]


def test_ids_that_a_gateway_uses_again_are_told_apart_by_the_credential(recording):
    one, other = (Client(recording, credential_hmac=name) for name in ("one", "other"))
    body = {"model": MODEL, "max_tokens": 9, "messages": [turn(2)]}
    step = {"type": "continue", "previous_message_id": "msg_same"}
    for client in (one, other):
        answer = recording.answer(request(turn(1))) | {"id": "msg_same", "content": [text("Aye.")]}
        recording.send(request(turn(1)), answer=answer, **client.heads)
    recording.send(
        body | {"thread": step}, **one.heads, answer=recording.answer(request(turn(1), turn(2)))
    )
    assert recording.judged()[-1][:2] == ("call-3", "call-1")


@pytest.mark.parametrize(
    ("named", "parent"),
    [("msg_0", "call-1"), ("msg_10", None), ("msg_9", None), (" ", None), (7, None)],
)
def test_a_call_that_names_itself_or_nobody_has_no_parent(recording, client, named, parent):
    client.create(turn(1))
    assert client.go_on(turn(2), previous=named) == "msg_10"
    assert previous(recording) == [None, parent]
    client.go_on(turn(3))  # it has no whole prompt, and a parent all the same
    assert previous(recording) == [None, parent, "call-2"]
    client.create(*client.messages, turn(4))
    assert len(recording.judged()) == 4


def test_a_turn_that_was_paused_goes_on_without_messages(recording, client):
    client.create(turn(1), content=[text("Let me see.")])
    client.go_on()
    client.go_on(
        {"role": "user", "content": [text("Well?")]}, {"role": "system", "content": "Be brief."}
    )
    client.go_on(turn(2), after_s=400.0)
    assert previous(recording) == [None, "call-1", "call-2", "call-3"]
    assert recording.judged()[3][2] == "expired"


def test_a_side_call_between_two_turns_is_passed_over(recording, client):
    client.create(turn(1))
    recording.send(request(turn(1), max_tokens=1), session_id=None)
    client.go_on(turn(2))
    assert previous(recording) == [None, None, "call-1"]


def test_a_client_that_leaves_with_the_whole_answer_has_all_of_the_thread(recording, client):
    client.create(turn(1), ended_with="client_disconnected")
    client.go_on(turn(2))
    client.go_on(turn(3), settings={"tool_choice": {"type": "none"}}, answer=nothing_read("x"))
    assert recording.judged()[1:] == [("call-2", "call-1", None), ("call-3", "call-2", "messages")]


def test_an_answer_that_was_cut_leaves_the_arithmetic_alone(recording, client):
    """No cause is guessed: what the model goes on from is not known."""
    usage = {"input_tokens": 5, "output_tokens": 1, "cache_creation_input_tokens": 30_000}
    message = {"id": "msg_cut", "model": MODEL, "usage": usage}
    begun = event("message_start", message=message)
    recording.send(
        request(turn(1), thread={"type": "create"}),
        stream=begun + event("content_block_start", index=0, content_block=text("A")),
        ended_with="client_disconnected",
        **client.heads,
    )
    client.go_on(
        turn(2),
        previous="msg_cut",
        settings={"tool_choice": {"type": "none"}},
        answer=nothing_read("x"),
    )
    assert recording.judged() == [("call-1", None, None), ("call-2", "call-1", "unknown")]


def test_tools_that_failed_are_named_from_the_whole_prompt(recording, client):
    client.create(turn(1), content=[CALL])
    client.go_on(user(RESULT["content"][0] | {"is_error": True}))
    (row,) = recording.read("select failed_tools from predecessors")
    assert row["failed_tools"] == tool("Read")["name"]


def test_a_repeated_system_prompt_of_a_continue_is_no_change(recording, client):
    client.create(turn(1))
    attribution = {"system": [text("x-anthropic-billing-header: cc_version=2.1.278")]}
    client.go_on(turn(2), settings=attribution)
    client.go_on(turn(3), settings=attribution, after_s=400.0)
    assert recording.judged()[2] == ("call-3", "call-2", "expired")
    (found,) = recording.read("select detail from cache_breaks")
    assert "system" not in json.dumps(found)


@pytest.mark.parametrize("keeps_bodies", [True, False])
def test_a_call_of_a_thread_counts_the_messages_and_tools_of_its_whole_prompt(
    recording, keeps_bodies
):
    client = Client(recording)
    facts: list[dict[str, Any]] = [{}] * 4
    if not keeps_bodies:
        facts = [{"metadata_only": True, "message_count": n, "tool_count": t, "thread": step} for n, t, step in
                 ((1, 2, "create"), (1, 0, "continue"), (2, 0, "continue"), (1, 0, "continue"))]  # fmt: skip
    client.create(turn(1), **facts[0])
    for messages, each in zip(([turn(2)], [RESULT, turn(3)], [turn(4)]), facts[1:], strict=True):
        named = {} if keeps_bodies else {"thread_previous_id": client.previous}
        client.go_on(*messages, **each, **named)
        recording.restart()
    counts = recording.read("select message_count, tool_count from usage order by id")
    assert [tuple(row.values()) for row in counts] == [(1, 2), (3, 2), (6, 2), (8, 2)]


@pytest.mark.parametrize("keeps_bodies", [True, False])
def test_a_call_without_words_of_its_own_has_the_title_of_the_one_before(recording, keeps_bodies):
    client = Client(recording)
    client.create(turn(1), content=[CALL])
    facts: dict[str, Any] = {} if keeps_bodies else {"metadata_only": True, "thread": "continue"}
    named = {} if keeps_bodies else {"thread_previous_id": client.previous}
    client.go_on(RESULT, **facts, **named)
    client.go_on(user(text("And then?")))
    client.go_on(RESULT)
    titles = recording.read("select title_text from usage order by id")
    first, second, *others = [row["title_text"] for row in titles]
    assert first.startswith("Question 1")
    assert second == (first if keeps_bodies else None)
    assert others == ["And then?", "And then?"]


def test_after_a_refusal_a_new_thread_follows_the_call_before(recording, client):
    client.create(turn(1))
    refused = nothing_read("refused") | {"stop_reason": "refusal"}
    client.go_on(turn(2), answer=refused)
    client.create(*client.messages[:2], turn(3))
    client.go_on(turn(4))
    assert previous(recording) == [None, "call-1", "call-1", "call-3"]


def read_and_written(name: str, read: int, written: int) -> dict[str, Any]:
    """Return an answer of whose prompt so many tokens were in the cache, and so many are now."""
    counts = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    answer = nothing_read(name)
    return answer | {"usage": answer["usage"] | {"input_tokens": 9} | counts}


@pytest.mark.parametrize(
    ("clear_at", "cause"), [("next_user_message", None), ("never", "unknown"), (None, "unknown")]
)
def test_a_reminder_that_the_model_is_not_shown_later_breaks_nothing(
    recording, client, clear_at, cause
):
    """The cache is read again up to the reminder, and what comes after it is not."""
    reminder = {"role": "system", "content": "Be brief. " * 2_000}
    reminder |= {"clear_at": clear_at} if clear_at else {}
    client.create(turn(1))
    client.go_on(turn(2), reminder, answer=read_and_written("with", 8_000, 8_000))
    client.go_on(turn(3), answer=read_and_written("without", 8_000, 4_000))
    assert recording.judged()[1:] == [("call-2", "call-1", None), ("call-3", "call-2", cause)]
    (row,) = recording.read("select message_count from usage order by id desc limit 1")
    assert row["message_count"] == 6


RING = (("a", "c"), ("b", "a"), ("c", "b"), ("a", "c"), ("b", "a"))


def go_round(recording: Recording, at_s: Callable[[int], float], order: Iterable[int]) -> None:
    """Record calls that name each other in a ring, by their places in it."""
    for place in order:
        name, named = RING[place]
        step = {"type": "continue", "previous_message_id": f"msg_{named}"}
        body = {"model": MODEL, "max_tokens": 9, "thread": step, "messages": [turn(1)]}
        recording.send(body, answer=nothing_read(name), session_id=None, at_s=at_s(place))


def test_in_a_ring_each_call_follows_the_last_one_before_it_that_it_names(recording):
    """A gateway that gives out ids of its own may make such."""
    go_round(recording, lambda place: 10.0 * place, range(5))
    assert previous(recording) == [None, "call-1", "call-2", "call-3", "call-4"]
    assert recording.read("select distinct session from usage_log") == [{"session": "unnamed-1"}]


@pytest.mark.parametrize("apart_s", [0.0, 10.0])
def test_a_ring_that_is_stored_backwards_or_began_at_once_has_no_loop(recording, apart_s):
    go_round(recording, lambda place: apart_s * place, reversed(range(5)))
    order = {row["entry_id"]: number for number, row in enumerate(recording.read())}
    assert len(order) == 5
    found = [(one, other) for one, other, _ in recording.judged() if other is not None]
    # Whoever follows somebody began later, or at once and was stored later: so no way leads back.
    assert all(order[other] < order[one] for one, other in found)
    if apart_s:
        assert found == [("call-4", "call-5"), ("call-3", "call-4"), ("call-2", "call-3"), ("call-1", "call-2")]  # fmt: skip


def test_an_attribution_that_changes_from_call_to_call_breaks_nothing(recording, client):
    client.create(turn(1))
    for number in range(2, 5):
        words = f"x-anthropic-billing-header: cc_version=2.1.{number}; cch={number};"
        client.go_on(turn(number), settings={"system": [text(words)]})
    assert [each[1:] for each in recording.judged()] == [
        (None, None),
        ("call-1", None),
        ("call-2", None),
        ("call-3", None),
    ]
