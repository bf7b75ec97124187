"""Indexing calls: each text is found once, with the first call that has it."""

import itertools
import multiprocessing
import os
import time

import pytest

from store import database
from store.traces.database import TraceDatabase
from store.traces.search import index as search_index, indexer, progress
from store.traces.search.indexer import Indexer
from tests.store.dying import die_after
from tests.store.traces.search.conversation import (
    NOTHING,
    assistant,
    find,
    first_calls,
    list_texts,
    record,
    request,
    response,
    stream,
    tool_call,
    tool_result,
    user,
)
from tests.store.traffic import agent_requests


def chat(turns):
    """The calls of a conversation, as pairs of request and response."""
    said = []
    for turn in range(turns):
        said.append(user(f"question{turn}"))
        call, text = tool_call(turn, command=f"command{turn}"), f"answer{turn}"
        yield request(*said), response(text, call)
        said += [assistant(text, call), tool_result(turn, f"result{turn}\nline")]


def test_each_text_is_found_once_with_its_first_call(traces, index):
    for pair in chat(4):
        record(traces, pair)
        index()
    for turn in range(4):
        assert first_calls(traces, f"question{turn}") == [turn + 1]
        assert first_calls(traces, f"answer{turn}") == [turn + 1]
        assert first_calls(traces, f"command{turn}") == [turn + 1]
    for turn in range(3):
        assert first_calls(traces, f"result{turn} line") == [turn + 2]


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_what_was_recorded_before_is_found_as_if_it_had_been_indexed_then(
    traces, index, monkeypatch, batch
):
    monkeypatch.setattr(indexer, "BATCH", batch)
    monkeypatch.setattr(indexer, "MAX_NEW", 0)
    record(traces, *chat(7))
    index()
    for turn in range(7):
        assert first_calls(traces, f"question{turn}") == [turn + 1]
        assert first_calls(traces, f"answer{turn}") == [turn + 1]
    for turn in range(6):
        assert first_calls(traces, f"result{turn}") == [turn + 2]
    assert progress.read_reach(traces.connection).is_whole


def test_a_new_indexer_knows_what_the_last_turn_said(traces, index):
    for pair in chat(4):
        record(traces, pair)
        index(Indexer(traces.connection, time.monotonic))
    for turn in range(4):
        assert first_calls(traces, f"question{turn}") == [turn + 1]
        assert first_calls(traces, f"answer{turn}") == [turn + 1]


def test_raw_json_hides_no_words_and_is_not_found(traces, index):
    record(
        traces, (request(user("a\nsecond \u00e9t\u00e9"), system="kind"), stream("ca", "fe\\u00e9"))
    )
    index()
    assert find(traces, "second")["pieces"]
    assert find(traces, "nsecond") == NOTHING
    assert find(traces, "ete")["pieces"]
    for name in ("role", "content", "messages"):
        assert find(traces, name) == NOTHING


def test_a_word_that_is_split_over_deltas_is_found_once_also_when_it_comes_back(traces, index):
    body = stream("the quok", "kadile sl", "eeps")
    record(traces, (request(user("hi")), body))
    record(traces, (request(user("hi"), assistant("the quokkadile sleeps"), user("so")), None))
    index()
    assert find(traces, "quokkadile sleeps") == {"pieces": [], "responses": [1]}


def test_words_of_a_response_that_was_changed_are_found_in_the_request(traces, index):
    record(traces, (request(user("hi")), response("the quokkadile sleeps")))
    record(traces, (request(user("hi"), assistant("the quokkadile wakes"), user("so")), None))
    index()
    assert first_calls(traces, "quokkadile") == [1, 2]


def test_the_same_words_in_another_session_are_found_there_too(traces, index):
    record(traces, (request(user("hi")), response("Done.")))
    record(traces, (request(user("ho")), response("Done.")), session_id="t")
    again = request(user("ho"), assistant("Done."), user("more"))
    record(traces, (again, None), session_id="t")
    index()
    assert find(traces, "done") == {"pieces": [], "responses": [1, 2]}


def test_chinese_and_japanese_words_are_found_within_a_run(traces, index):
    record(traces, (request(user("中文测试句子 日本語")), None))
    index()
    assert find(traces, "测 试")["pieces"]
    assert find(traces, "试 测") == NOTHING


def test_a_long_conversation_is_indexed_as_it_grows(traces, index):
    bodies = list(agent_requests(25))
    for body in bodies:
        record(traces, (body, None))
        index()
    texts = [text for _, text in list_texts(traces) if text != "tool_1"]
    assert sorted(texts) == sorted(set(texts))
    assert len(texts) > 25


def test_calls_without_bodies_are_passed_over(traces, index):
    record(traces, (None, None), (b"\xff\0", b"\xff\0"), (request(user("hi")), b"{"))
    index()
    assert first_calls(traces, "hi") == [3]
    assert progress.read_indexed_to(traces.connection) == 3


def test_a_large_body_is_passed_over(traces, index, monkeypatch):
    monkeypatch.setattr(indexer, "MAX_BODY_BYTES", 100)
    record(traces, (request(user("large " * 50)), None), (request(user("small")), None))
    index()
    assert find(traces, "large") == NOTHING
    assert first_calls(traces, "small") == [2]


def test_the_reach_goes_back_from_the_newest_call(traces, monkeypatch):
    monkeypatch.setattr(indexer, "BATCH", 2)
    monkeypatch.setattr(indexer, "MAX_NEW", 0)
    record(traces, *chat(6))
    one_at_a_time = Indexer(traces.connection, time.monotonic)
    seen = []
    while one_at_a_time.run(0):
        reach = progress.read_reach(traces.connection)
        seen.append((reach.left, reach.back_to))
    arrived = [
        row[0] for row in traces.connection.execute("select created_at from usage order by id")
    ]
    assert list(dict.fromkeys(seen)) == [
        (6, None),
        (4, arrived[4]),
        (2, arrived[2]),
        (0, None),
    ]


def test_what_came_while_the_index_was_off_is_indexed_before_what_is_older(
    traces, index, monkeypatch
):
    monkeypatch.setattr(indexer, "MAX_NEW", 2)
    record(traces, *chat(1))
    index()
    record(traces, *((request(user(f"later{n}")), None) for n in range(5)))
    index()
    assert [first_calls(traces, f"later{n}") for n in range(5)] == [[2], [3], [4], [5], [6]]


def test_no_transaction_takes_long_however_much_there_is(traces, monkeypatch):
    """The rows that each writes are counted, since time depends on the machine."""
    monkeypatch.setattr(indexer, "FLUSH_CHARS", 3_000)
    bodies = [(body, None) for body in agent_requests(30)]
    record(traces, *bodies)
    sizes = []
    write = search_index.write_pieces

    def watch(db, rows):
        sizes.append(sum(len(text) for row in rows for _, text in row.texts))
        write(db, rows)

    monkeypatch.setattr(search_index, "write_pieces", watch)
    Indexer(traces.connection, time.monotonic).run(60)
    first_call, *others = sizes
    assert len(others) > 10
    assert max(others) <= 3_000 + 5_000, "what one turn adds"
    assert first_call > 50_000


def test_new_calls_are_read_together(traces, index):
    reads: list[int] = []
    for count in (2, 3, 12):
        record(
            traces, *((request(user(f"word{count}x{n}")), response("yes")) for n in range(count))
        )
        statements: list[str] = []
        traces.connection.set_trace_callback(statements.append)
        index()
        traces.connection.set_trace_callback(None)
        reads.append(sum(each.startswith("select") for each in statements))
        assert first_calls(traces, f"word{count}x{count - 1}")
    assert reads[1] == reads[2]


def test_what_all_messages_end_with_is_read_once(traces, index):
    turns = [assistant(f"word{n}") | {"role": ("user", "assistant")[n % 2]} for n in range(40)]
    for count in (20, 40):
        record(traces, (request(*turns[:count]), None))
        statements: list[str] = []
        traces.connection.set_trace_callback(statements.append)
        index()
        traces.connection.set_trace_callback(None)
        assert sum(" from pieces " in each for each in statements) <= 2
        assert first_calls(traces, f"word{count - 1}")


def index_and_die(path, statements):
    with TraceDatabase(path) as traces:
        die_after(traces.connection, statements)
        indexer = Indexer(traces.connection, time.monotonic)
        while indexer.run(10):
            pass
        os._exit(0)


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.slow
def test_an_indexer_that_is_killed_anywhere_loses_and_doubles_nothing(
    traces, traces_path, index, monkeypatch, old
):
    monkeypatch.setattr(indexer, "BATCH", 2)
    monkeypatch.setattr(indexer, "MAX_NEW", 0 if old else 2_000)
    monkeypatch.setattr(indexer, "FLUSH_CHARS", 10)
    record(traces, *chat(4))
    exits = []
    for statements in itertools.count(5, 17):
        child = multiprocessing.get_context("fork").Process(
            target=index_and_die, args=(traces_path, statements)
        )
        child.start()
        child.join()
        exits.append(child.exitcode)
        if child.exitcode == 0:
            break
    assert exits.count(9) > 3
    index()
    for turn in range(4):
        assert first_calls(traces, f"question{turn}") == [turn + 1]
        assert first_calls(traces, f"answer{turn}") == [turn + 1]


def test_a_call_that_is_removed_while_it_is_read_leaves_nothing(traces, monkeypatch):
    record(traces, *chat(2))
    immediate = database.immediate

    def remove_first(connection):
        monkeypatch.setattr(database, "immediate", immediate)
        connection.execute("update usage set created_at = '2020' where id = 1")
        traces.prune(before="2021", pause=lambda _: None)
        return immediate(connection)

    monkeypatch.setattr(database, "immediate", remove_first)
    assert not Indexer(traces.connection, time.monotonic).run(60)
    assert first_calls(traces, "question0") == [2]
    assert first_calls(traces, "answer0") == [2]
    assert first_calls(traces, "answer1") == [2]
