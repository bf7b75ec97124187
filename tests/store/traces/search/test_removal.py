"""Texts that retention removes are gone from the index, and all others are still found."""

from pathlib import Path

from tests.store.traces.search.conversation import (
    NOTHING,
    assistant,
    find,
    first_calls,
    list_texts,
    record,
    request,
    response,
    user,
)
from tests.store.traffic import agent_requests

OLD = {"created_at": "2020-01-01T00:00:00.000Z"}


def prune(traces, before="2021"):
    return traces.prune(before=before, pause=lambda _: None).entries


def read_file(traces):
    """The bytes of the database, in which removed pages are overwritten."""
    traces.connection.execute("pragma wal_checkpoint(truncate)")
    path = traces.connection.execute("pragma database_list").fetchone()[2]
    return Path(path).read_bytes().lower()


def test_the_words_of_removed_calls_are_not_in_the_file(traces, index):
    texts = {
        "user": "zebrafinch",
        "response": "quokkadile",
        "system": "wombatland",
        "tool": "emuwise",
    }
    tools = [{"name": "Bash", "description": texts["tool"]}]
    body = request(user(texts["user"]), system=texts["system"], tools=tools)
    record(traces, (body, response(texts["response"])), **OLD)
    record(traces, (request(user("a platypus")), response("no platypus")), session_id="t")
    index()
    assert all(word.encode() in read_file(traces) for word in texts.values())
    assert prune(traces) == 1
    content = read_file(traces)
    assert [word for word in texts.values() if word.encode() in content] == []
    assert first_calls(traces, "platypus") == [2, 2]
    for word in texts.values():
        assert find(traces, word) == NOTHING


def test_a_text_that_later_calls_have_too_is_found_with_the_next_of_them(traces, index):
    said = [user("zebrafinch"), assistant("quokkadile"), user("wombat")]
    record(traces, (request(*said[:1]), response("quokkadile")), **OLD)
    record(traces, (request(*said), response("platypus")))
    record(traces, (request(*said, assistant("platypus"), user("emu")), None))
    index()
    assert first_calls(traces, "quokkadile") == [1]
    assert prune(traces) == 1
    for word, calls in {"zebrafinch": [2], "quokkadile": [2], "wombat": [2], "emu": [3]}.items():
        assert first_calls(traces, word) == calls
    traces.connection.execute("update usage set created_at = '2020' where id = 2")
    assert prune(traces) == 1
    for word in ("zebrafinch", "quokkadile", "wombat", "platypus", "emu"):
        assert first_calls(traces, word) == [3]


def test_texts_that_are_removed_before_their_calls_are_found_no_more(traces, index):
    said = [user("zebrafinch"), assistant("quokkadile"), user("wombat")]
    record(traces, (request(*said[:1], system="emuwise"), response("quokkadile")), **OLD)
    record(traces, (request(*said), response("platypus")))
    record(traces, (request(user("numbatish")), response("echidnary")), **OLD)
    index()
    traces.prune(texts_before="2021", pause=lambda _: None)
    for word, calls in {"zebrafinch": [2], "quokkadile": [2], "wombat": [2]}.items():
        assert first_calls(traces, word) == calls
    content = read_file(traces)
    for word in ("emuwise", "numbatish", "echidnary"):
        assert find(traces, word) == NOTHING
        assert word.encode()[3:] not in content


def test_pruning_all_leaves_an_empty_index(traces, index):
    record(traces, *((body, response("fine")) for body in agent_requests(12)), **OLD)
    index()
    assert list_texts(traces)
    prune(traces)
    db = traces.connection
    for table in ("search_pieces", "search_responses", "search_moves", "search_text_idx"):
        assert db.execute(f"select count(*) from {table}").fetchone() == (0,), table  # noqa: S608


def test_an_index_that_was_pruned_equals_one_of_what_is_left(traces, index):
    """Each word is found as often as if the removed calls had never been."""
    bodies = list(agent_requests(12))
    for number, body in enumerate(bodies):
        changes = OLD if number < 6 else {}
        record(traces, (body, response(f"answer{number}")), **changes)
        index()
    prune(traces)
    traces.connection.execute(
        "create virtual table temp.words using fts5vocab(main, search_text, 'col')"
    )
    words = traces.connection.execute("select term, col, doc from temp.words").fetchall()
    left = [each for each in list_texts(traces) if each[1] != "tool_1"]
    assert sorted(left) == sorted(set(left))
    assert {role for _, role, _ in words} == {role for role, _ in left}
    assert "answer5" not in {word for word, _, _ in words}
    assert first_calls(traces, "answer6") == [7]
    assert list(traces.verify()) == []
