"""The recorder stores what calls did: uses of tools, how they went, and first words."""

import json
from decimal import Decimal
from typing import Any

import pytest

from metering.request_facts import keep_plain_names, parse_facts
from store.spool.format import pack_results
from store.traces.calls.costs import NewCost
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.conversations.sessions import assistant, request, text, user
from tests.recorder.conversations import Recording
from wire.request import CONTINUATION

USES = "select * from tool_uses order by usage_id, place"
READ = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a/b.py"}}
BASH = {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "pytest -q"}}
SECRET = "wombatish"


@pytest.fixture
def recording(tmp_path):
    recording = Recording(tmp_path)
    yield recording
    recording.close()


def result(id_: str, content: object = "x" * 30, **fields: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **fields}


def send(recording: Recording, messages: list[Any], answered: list[Any], **changes: Any) -> None:
    """Record a call whose response has these blocks, and add them to the messages."""
    body = request(*messages)
    answer = recording.answer(body, recording.at_s + 10) | {"content": answered}
    recording.send(body, answer=answer, **changes)
    messages.append(assistant(*answered))


def read_uses(recording: Recording, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in recording.read(USES)]


def read_session(recording: Recording) -> dict[str, Any]:
    (row,) = recording.read("select prompts, failed_tools, credential_hmac from sessions")
    return row


def test_uses_are_stored_with_the_call_and_their_results_with_the_next(recording):
    messages = [user(text("Mend it."))]
    edit = {"file_path": "/a", "old_string": "a", "new_string": "b\nc"}
    edits = {"type": "tool_use", "id": "toolu_3", "name": "Edit", "input": edit}
    send(recording, messages, [text("I look."), READ, BASH, edits])
    assert read_uses(recording, "place", "tool", "target", "problem", "result_tokens") == [
        (0, "Read", "/a/b.py", None, None),
        (1, "Bash", "pytest -q", None, None),
        (2, "Edit", "/a", None, None),
    ]
    failed = result("toolu_2", "Exit code 1\nno", is_error=True)
    messages.append(user(failed, result("toolu_1"), result("toolu_3")))
    send(recording, messages, [text("Done.")])
    assert read_uses(
        recording, "usage_id", "tool", "problem", "result_tokens", "plus", "minus"
    ) == [
        (1, "Read", None, 10, None, None),
        (1, "Bash", "exit 1", 5, None, None),
        (1, "Edit", None, 10, 2, 1),
    ]
    said = [row["said_text"] for row in recording.read("select said_text from usage order by id")]
    assert said == ["I look.", "Done."]
    assert read_session(recording) == {
        "prompts": 1,
        "failed_tools": 1,
        "credential_hmac": "credential",
    }


def test_calls_of_one_batch_are_completed_too(recording):
    messages = [user(text("Mend it."))]
    send(recording, messages, [BASH], record=False)
    messages.append(user(result("toolu_2", "No such file", is_error=True)))
    send(recording, messages, [text("Done.")])
    assert read_uses(recording, "problem", "result_tokens") == [("not found", 4)]
    assert read_session(recording)["failed_tools"] == 1


def test_a_call_that_is_stored_late_gets_its_results(recording):
    first = request(user(text("Mend it.")))
    answer = recording.answer(first) | {"content": [READ]}
    messages = [user(text("Mend it.")), assistant(READ), user(result("toolu_1", is_error=True))]
    recording.send(request(*messages), at_s=20)
    assert read_uses(recording, "tool") == []
    recording.send(first, at_s=10, answer=answer)
    assert read_uses(recording, "usage_id", "problem", "result_tokens") == [(2, "x" * 30, 10)]
    assert read_session(recording)["failed_tools"] == 1


def test_results_that_go_on_after_a_failed_call_are_of_the_call_before_it(recording):
    messages = [user(text("Mend it."))]
    send(recording, messages, [READ])
    messages.append(user(result("toolu_1")))
    recording.send(request(*messages), status_code=529)
    assert read_uses(recording, "result_tokens") == [(10,)]
    send(recording, messages, [text("Done.")])
    assert read_uses(recording, "usage_id", "result_tokens") == [(1, 10)]


def test_tools_of_upstream_have_their_results_at_once(recording):
    search = {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "fares"},
    }
    found = {"type": "web_search_tool_result", "tool_use_id": "s1"}
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    maps = {"type": "mcp_tool_use", "id": "m1", "name": "find", "server_name": "maps", "input": {}}
    place = {"type": "mcp_tool_result", "tool_use_id": "m1", "content": [text("x" * 30)]}
    answer = [search, found | {"content": error}, maps, place, READ]
    send(recording, [user(text("Where?"))], answer)
    assert read_uses(recording, "tool", "server", "target", "problem", "result_tokens") == [
        ("web_search", None, "fares", "unavailable", 22),
        ("find", "maps", None, None, 10),
        ("Read", None, "/a/b.py", None, None),
    ]
    assert read_session(recording)["failed_tools"] == 1


def _stream(*blocks: dict[str, Any]) -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 9}}}
    ]
    for index, block in enumerate(blocks):
        empty: dict[str, Any] = {"input": {}} if "input" in block else {"text": ""}
        start = block | empty
        delta: dict[str, Any] = {"type": "text_delta", "text": block.get("text")}
        if "input" in block:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode())
        for each in events
    )


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (None, [("Read", "/a/b.py"), ("Bash", "pytest -q")]),
        (-180, [("Read", "/a/b.py"), ("Bash", None)]),
    ],
)
def test_uses_of_a_stream_are_stored_as_far_as_they_came(recording, cut, expected):
    body = _stream(text("I look."), READ, BASH)[:cut]
    recording.send(request(user(text("Mend it."))), stream=body)
    assert read_uses(recording, "tool", "target") == expected
    assert recording.read("select said_text from usage") == [{"said_text": "I look."}]


def _head(messages: list[Any]) -> dict[str, Any]:
    """Return what the proxy reads of a request that is not kept."""
    facts = keep_plain_names(parse_facts(json.dumps(request(*messages)).encode()))
    return {
        "metadata_only": True,
        "message_count": facts.message_count,
        "tool_count": facts.tool_count,
        "request_model": facts.model,
        "tool_results": pack_results(facts.tool_results),
    }


def test_without_bodies_names_and_numbers_are_kept(recording, tmp_path):
    messages = [user(text(f"Mend the {SECRET}."))]
    uses = [
        text(SECRET),
        READ | {"input": {"file_path": f"/{SECRET}"}},
        BASH | {"name": f"{SECRET} with spaces"},
    ]
    send(recording, messages, uses, **_head(messages))
    messages.append(
        user(result("toolu_1", SECRET * 10, is_error=True), result("toolu_2", SECRET * 10))
    )
    send(recording, messages, [text(SECRET)], **_head(messages))
    assert read_uses(recording, "tool", "target", "problem", "result_tokens") == [
        ("Read", None, "failed", 30),
        (None, None, None, 30),
    ]
    assert recording.read("select distinct said_text from usage") == [{"said_text": None}]
    assert read_session(recording)["failed_tools"] == 1
    recording.restart()
    path = trace_path(tmp_path, "org")
    assert not any(SECRET.encode() in each.read_bytes() for each in path.parent.iterdir())


def test_results_of_another_answer_are_left_out(recording):
    messages = [user(text("Mend it."))]
    send(recording, messages, [READ], **_head(messages))
    elsewhere = [*messages, user(result("toolu_1")), assistant(BASH), user(result("toolu_2"))]
    send(recording, elsewhere, [text("Done.")], **_head(elsewhere))
    assert read_uses(recording, "result_tokens") == [(None,)]


def test_results_in_a_message_thread_are_those_of_its_last_answer(recording):
    body = request(user(text("Mend it."))) | {"thread": {"type": "create"}}
    answer = recording.answer(body) | {"id": "msg_a", "content": [READ, BASH]}
    recording.send(body, answer=answer, session_id=None)
    step = {"type": "continue", "previous_message_id": "msg_a"}
    results = [result("toolu_2", "Exit code 2", is_error=True), result("toolu_1")]
    body = {"model": body["model"], "max_tokens": 9, "thread": step, "messages": [user(*results)]}
    answer = recording.answer(body) | {"id": "msg_b", "content": [text("Done.")]}
    recording.send(body, answer=answer, session_id=None)
    assert read_uses(recording, "tool", "problem", "result_tokens") == [
        ("Read", None, 10),
        ("Bash", "exit 2", 4),
    ]
    assert read_session(recording)["failed_tools"] == 1


def test_results_in_a_message_thread_without_bodies_are_known_by_their_order(recording):
    answer = recording.answer(request(user(text("Mend it.")))) | {"content": [READ, BASH]}
    of_thread = {"metadata_only": True, "session_id": None, "message_count": 1}
    recording.send(
        request(user(text("Mend it."))),
        answer=answer | {"id": "msg_a"},
        thread="create",
        **of_thread,
    )
    facts = parse_facts(
        json.dumps(
            {"messages": [user(result("toolu_1"), result("toolu_2", is_error=True))]}
        ).encode()
    )
    recording.send(
        request(user(text("Go on."))),
        answer=answer | {"id": "msg_b", "content": []},
        thread="continue",
        thread_previous_id="msg_a",
        tool_results=pack_results(keep_plain_names(facts).tool_results),
        **of_thread,
    )
    assert read_uses(recording, "tool", "problem", "result_tokens") == [
        ("Read", None, 10),
        ("Bash", "failed", 10),
    ]


def test_prompts_of_a_session_are_counted_once_each(recording):
    messages = [user(text("Mend it."))]
    send(recording, messages, [READ])
    messages.append(user(result("toolu_1")))
    recording.send(request(*messages), status_code=529)
    send(recording, messages, [text("Done.")])
    recording.send(request(user(text("Find it."))), agent_id="agent-1")
    recording.send(
        request(user(text("A title?"))), client_hints={"x-claude-code-request-class": "auxiliary"}
    )
    assert read_session(recording)["prompts"] == 1
    messages.append(user(text("Now this.")))
    send(recording, messages, [text("Done.")])
    assert read_session(recording)["prompts"] == 2
    summary = text(f"{CONTINUATION} that ran out of context. It was mended.")
    send(recording, [user(summary)], [text("I go on.")])
    assert read_session(recording)["prompts"] == 2
    send(recording, [user(summary, text("And that."))], [text("Done.")])
    assert read_session(recording)["prompts"] == 3


def test_sums_of_a_session_stay_when_a_call_gets_another_cost(recording, tmp_path):
    """It is taken out of the sums and put back."""
    messages = [user(text("Mend it."))]
    send(recording, messages, [READ])
    messages.append(user(result("toolu_1", is_error=True)))
    send(recording, messages, [text("Done.")])
    before = read_session(recording)
    recording.restart()
    with TraceDatabase(trace_path(tmp_path, "org")) as traces:
        new = [NewCost(usage_id=n, cost_cents=Decimal(7), cost_items=()) for n in (1, 2)]
        assert traces.update_costs(new) == 2
    assert recording.read("select cost_cents from sessions") == [{"cost_cents": 14.0}]
    assert read_session(recording) == before
