import pytest
from hypothesis import given, strategies as st

from wire import conversation_memory
from wire.conversation_memory import ConversationMemory, Findings, shared_length

guess_key = Findings[object]().guess_key


@given(st.binary(max_size=50), st.binary(max_size=50), st.binary(max_size=50))
def test_the_shared_length_is_that_of_the_common_beginning(shared, first, second):
    first, second = shared + first, shared + second
    length = shared_length(first, second)
    assert length == shared_length(second, first)
    assert first[:length] == second[:length]
    assert length == min(len(first), len(second)) or first[length] != second[length]


def test_turns_of_a_conversation_have_one_key():
    turn = b'{"model":"m","messages":[{"role":"user","content":"%b"}' % (b"hello " * 1000)
    assert guess_key(turn + b"]}", "session") == guess_key(turn + b',{"role":"x"}]}', "session")
    assert guess_key(turn, "session") != guess_key(turn, "another session")
    assert guess_key(turn, "session") != guess_key(turn.replace(b"hello", b"Hello"), "session")


def test_sessions_that_share_a_system_prompt_are_told_apart_by_their_first_message():
    head = b'{"system":"%b","messages":[' % (b"be good " * 1000)
    assert guess_key(head + b'{"role":"a"') != guess_key(head + b'{"role":"b"')


def test_the_key_of_a_request_does_not_depend_on_those_before_it():
    bodies = [
        b'{"system":"%b","messages":[{"role":"user","content":"hello %d"}]}' % (b"be good " * n, n)
        for n in (3, 3, 9, 0, 3)
    ]
    asked = Findings[object]()
    for body in (*bodies, b"no messages", *bodies):
        assert asked.guess_key(body) == Findings[object]().guess_key(body)


def test_a_body_without_messages_has_a_key():
    assert guess_key(b"") == (b"",)
    assert guess_key(b"no messages") == (b"no messages",)


def test_what_is_kept_is_found_until_something_else_takes_its_place():
    memory = ConversationMemory()
    findings = Findings[int](memory)
    assert findings.find(("a",)) is None
    findings.keep(("a",), b"body", 1)
    findings.keep(("a",), b"body 2", 2)
    assert findings.find(("a",)) == (b"body 2", 2)
    assert len(memory) == 1


def test_each_finds_what_it_has_kept_itself():
    memory = ConversationMemory()
    numbers, words = Findings[int](memory), Findings[str](memory)
    numbers.keep(("a",), b"body", 1)
    assert words.find(("a",)) is None
    words.keep(("a",), b"body 2", "two")
    assert numbers.find(("a",)) == (b"body", 1)
    assert words.find(("a",)) == (b"body 2", "two")


def test_a_body_that_several_have_kept_counts_once():
    memory = ConversationMemory(max_bytes=31_000)
    readers = [Findings[int](memory) for _ in range(5)]
    for number in range(3):
        body = bytes(8_000)
        for reader in readers[:-1]:
            reader.keep((number,), body, number)
        readers[-1].keep(("another key", number), body, number)
    assert [readers[0].find((number,)) is not None for number in range(3)] == [True] * 3
    assert memory.total_bytes == 3 * 8_000 + 6 * 1024
    readers[0].keep((0,), b"x" * 8_000, 0)  # another body of the same conversation
    assert memory.total_bytes <= 31_000
    assert readers[0].find((1,)) is None  # which is the one that rested longest


def test_the_conversations_that_rested_longest_are_forgotten():
    findings = Findings[int](ConversationMemory(max_bytes=3 * 10_000))
    for number in range(10):
        findings.keep((number % 3,), bytes(8_000), number)
    findings.keep((0,), bytes(8_000), 10)
    assert {key for key in range(3) if findings.find((key,))} == {0, 1, 2}
    findings.keep((3,), bytes(8_000), 11)
    assert {key for key in range(4) if findings.find((key,))} == {0, 2, 3}


def test_conversations_of_which_nothing_is_kept_take_room_too():
    memory = ConversationMemory(max_bytes=100_000)
    findings = Findings[None](memory)
    for number in range(1000):
        findings.keep((number,), b"", None)
    assert len(memory) < 100


def test_a_body_larger_than_the_memory_is_not_kept():
    memory = ConversationMemory(max_bytes=10_000)
    Findings[int](memory).keep(("a",), bytes(20_000), 1)
    assert len(memory) == 0
    Findings[int](memory).keep(("a",), bytes(8_000), 1)
    assert len(memory) == 1


def test_a_memory_that_was_cleared_has_all_its_room_again():
    memory = ConversationMemory(max_bytes=10_000)
    findings = Findings[int](memory)
    findings.keep(("a",), bytes(8_000), 1)
    memory.clear()
    assert findings.find(("a",)) is None
    findings.keep(("b",), bytes(8_000), 2)
    assert findings.find(("b",)) is not None


@pytest.fixture
def compared(monkeypatch):
    """The pairs that are compared byte by byte."""
    pairs: list[tuple[bytes, bytes]] = []

    def compare(first, second):
        pairs.append((first, second))
        return shared_length(first, second)

    monkeypatch.setattr(conversation_memory, "shared_length", compare)
    return pairs


def test_requests_are_compared_once_for_all_owners_of_a_batch(compared):
    memory = ConversationMemory()
    pairs = [(b"%d before" % number, b"%d after" % number) for number in range(50)]
    for _owner in range(3):
        assert {memory.shared_length(*pair) for pair in pairs} == {2, 3}
    assert compared == pairs
    memory.forget_batch()
    assert memory.shared_length(*pairs[0]) == 2
    assert compared == [*pairs, pairs[0]]


def test_what_was_compared_is_held_within_its_bound(compared, monkeypatch):
    monkeypatch.setattr(conversation_memory, "MAX_COMPARED_BYTES", 20)
    memory = ConversationMemory()
    small, other, large = (b"ab", b"ac"), (b"12345678", b"12345679"), (b"x" * 20, b"x" * 30)
    for pair, length in ((small, 1), (other, 7), (small, 1), (large, 20), (large, 20), (small, 1)):
        assert memory.shared_length(*pair) == length
    assert compared == [small, other, large, large, small]
