from hypothesis import given, strategies as st

from metering.conversation_memory import Conversations, guess_key, shared_length


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


def test_a_body_without_messages_has_a_key():
    assert guess_key(b"") == (b"",)
    assert guess_key(b"no messages") == (b"no messages",)


def test_what_is_kept_is_found_until_something_else_takes_its_place():
    conversations = Conversations[int]()
    assert conversations.find(("a",)) is None
    conversations.keep(("a",), b"body", 1)
    conversations.keep(("a",), b"body 2", 2)
    assert conversations.find(("a",)) == (b"body 2", 2)
    assert len(conversations) == 1


def test_the_conversations_that_rested_longest_are_forgotten():
    conversations = Conversations[int](max_bytes=3 * 10_000)
    for number in range(10):
        conversations.keep((number % 3,), bytes(8_000), number)
    conversations.keep((0,), bytes(8_000), 10)
    assert {key for key in range(3) if conversations.find((key,))} == {0, 1, 2}
    conversations.keep((3,), bytes(8_000), 11)
    assert {key for key in range(4) if conversations.find((key,))} == {0, 2, 3}


def test_conversations_of_which_nothing_is_kept_take_room_too():
    conversations = Conversations[None](max_bytes=100_000)
    for number in range(1000):
        conversations.keep((number,), b"", None)
    assert len(conversations) < 100


def test_a_body_larger_than_the_memory_is_not_kept():
    conversations = Conversations[int](max_bytes=10_000)
    conversations.keep(("a",), bytes(20_000), 1)
    assert len(conversations) == 0
