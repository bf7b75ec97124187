"""Requests of a conversation are read as each is by itself, with the two analyses that the recorder has."""

import json
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from conversations.prompt_analysis import PromptAnalysis
from tests.store.traffic import agent_requests
from wire import repeated_requests, request_parts
from wire.conversation_memory import Findings
from wire.json_reading import parse_object
from wire.repeated_requests import RepeatedRequests
from wire.request_fields import FieldsAnalysis

ANALYSES = FieldsAnalysis(), PromptAnalysis()


class OneConversation[T](Findings[T]):
    """Compares each request with the one before."""

    def guess_key(self, *_):
        return ()


# Every request is compared with the one before, however small it is.
all_compared = mock.patch.multiple(repeated_requests, MIN_BODY_BYTES=0, Findings=OneConversation)

KEYS = ["model", "metadata", "messages", "role", "content", "tools", "max_tokens", "", "thinking"]
KEYS += [
    "thread",
    "previous_message_id",
    "billing_policy",
    "bill_to",
    "output_config",
    "effort",
    "budget_tokens",
    "text",
    "cache_control",
    "ttl",
]
TEXTS = ["m", "user", 'a {"role":"user"} b', '[{"role":', "]}", ",", "", "ü", "1h", "text"]
TEXTS += ["<system-reminder>", "</system-reminder>", '"cache_control":{"ttl":"1h"}']
scalars: st.SearchStrategy[object] = st.sampled_from([*TEXTS, 0, 1.5, None, True, [], {}])


class Pairs(tuple[tuple[str, object], ...]):
    """An object, as pairs: JSON may say a key twice."""


def objects(values, first=()):
    return st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=4).map(
        lambda members: Pairs((*first, *members))
    )


ROLES = (("role", "user"),)
contents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | objects(inner), max_leaves=6
)
# What is like a message may be anywhere, but mostly it is where the messages are.
odd = st.sampled_from([False] * 9 + [True])
messages = odd.flatmap(
    lambda is_odd: objects(objects(contents, ROLES) if is_odd else contents, ROLES)
)
documents = st.tuples(
    objects(contents), st.lists(messages, min_size=1, max_size=4), objects(contents)
)
spaces = st.sampled_from(["", "", "", " ", "\n"])


def write(value, space=""):
    if isinstance(value, Pairs):
        members = (f"{json.dumps(key)}:{space}{write(each, space)}" for key, each in value)
        return "{" + f",{space}".join(members) + "}"
    if isinstance(value, list):
        return "[" + f",{space}".join(write(each, space) for each in value) + "]"
    return json.dumps(value)


class Reader:
    """Reads requests of one conversation."""

    def __init__(self):
        self._requests = RepeatedRequests(ANALYSES)

    def read(self, text, *labels):
        """Return the fields of a request, once its prompt has been compared with what it is by itself."""
        fields, prompt = self._requests.read(text, *labels)
        assert prompt == read_alone(text)[1]
        return fields


def read_alone(text):
    return tuple(each.read_whole(parse_object(text), text) for each in ANALYSES)


def wanted(text):
    return read_alone(text)[0]


@pytest.mark.slow
@all_compared
@settings(max_examples=25)  # of up to four requests
@given(st.lists(documents, min_size=1, max_size=4), spaces, st.data())
def test_any_json_is_read_as_by_parsing_the_whole(turns, space, data):
    reader = Reader()
    head, _, _ = turns[0]
    sent: list[object] = []
    for other_head, new, tail in turns:
        head = data.draw(st.sampled_from([head, head, head, other_head]))
        kept = data.draw(st.sampled_from([len(sent), len(sent), len(sent) // 2]))
        sent = [*sent[:kept], *new]
        text = write(Pairs((*head, ("messages", sent), *tail)), space).encode()
        assert reader.read(text) == wanted(text)


@pytest.mark.slow
@all_compared
@given(
    documents.map(lambda each: write(Pairs((*each[0], ("messages", each[1]), *each[2])))),
    st.data(),
)
def test_what_is_no_json_is_read_as_by_parsing_the_whole(text, data):
    """After a good request, one that is damaged somewhere."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    between = data.draw(
        st.sampled_from(["", "]", "}", "[", "{", ",", '"', text[:end], text[start:]])
    )
    reader = Reader()
    for each in (text, text[:start] + between + text[end:], text):
        assert reader.read(each.encode()) == wanted(each.encode())


ROLE = '{"role":"user","content":"x"}'


@all_compared
@pytest.mark.parametrize(
    "text",
    [
        f'{{"model":"a","messages":[{ROLE},{ROLE}],"model":"b"}}',
        f'{{"messages":[{ROLE},{ROLE}],"metadata":{{"user_id":"u"}},"model":"m"}}',
        f'{{"a":[{ROLE}],"model":"m","metadata":{{}},"b":[{ROLE}]}}',
        f'{{"a":{{"model":"x","messages":[{ROLE}]}},"model":"m","messages":[{ROLE}]}}',
        '{"a":{"role":1},"model":"m","b":{"role":2}}',
        f'{{"model":[{ROLE},{ROLE}]}}',
        f'{{"model":"m","model":[{ROLE}]}}',
        f'{{"messages":[],"x":1,"messages":[{ROLE},{ROLE}]}}',
        f'{{"messages":[{ROLE},{ROLE}],"messages":[1]}}',
        f'{{"messages":[{ROLE},{ROLE}],"messages":7}}',
        f'{{"messages":[{ROLE},{ROLE}],"":[1]}}',
        f'{{"tools":[{ROLE},{ROLE}],"messages":[{ROLE}]}}',
        f'{{"tools":[1],"messages":[{ROLE},{ROLE}],"tools":[1,2],"max_tokens":5}}',
        f'{{"x":"\\"messages\":[","messages" : [ {ROLE} , {ROLE} ] }}',
        f'{{"x":"messages","y":[{ROLE},{ROLE}]}}',
        f'{{"messages":[{{"role":"user","content":[{ROLE},{ROLE}]}}],"model":"m"}}',
        '{"messages":[{"role":"user","model":"x"},{"role":"user","model":"y"}],"model":"m"}',
        f'{{"messages":[{ROLE} {ROLE}],"model":"m"}}',
        f'{{"model":"m","messages":[1 {ROLE}]}}',
        f'[{ROLE},{ROLE}]',
        f'{{"model":"m","messages":[{ROLE}]}} x',
        f'{{"model":"m","x":NaN,"messages":[{ROLE},{ROLE}]}}',
        f'{{"model":"m","messages":[{ROLE},{ROLE}],"metadata":"\\ud800"}}',
        f'\ufeff{{"model":"m","messages":[{ROLE}]}}',
        f'{{"mod\\u0065l":"m","messages":[{ROLE},{ROLE}],"metadat\\u0061":1}}',
    ],
)  # fmt: skip
def test_odd_requests_are_read_as_by_parsing_the_whole(text):
    reader = Reader()
    for each in (text, text, text.replace('"x"', '"xx"'), text):
        assert reader.read(each.encode()) == wanted(each.encode())


@all_compared
def test_a_message_that_holds_messages_ends_no_conversation():
    reader = Reader()
    plain = f'{{"model":"m","messages":[{ROLE},{ROLE}'
    nested = f'{plain},{{"role":"user","content":[{ROLE},{ROLE}]}}]}}'
    for text, count in ((f"{plain}]}}", 2), (nested, 3)):
        fields = reader.read(text.encode())
        assert (fields["model"], fields["messages"]) == ("m", count)


@pytest.fixture
def parsed(monkeypatch):
    """The sizes of what is parsed."""
    sizes: list[int] = []

    class Counting:
        JSONDecodeError = orjson.JSONDecodeError

        @staticmethod
        def loads(data):
            sizes.append(len(data))
            return orjson.loads(data)

    monkeypatch.setattr(request_parts, "orjson", Counting)
    return sizes


def test_of_a_turn_only_what_is_new_is_parsed_and_that_once(parsed):
    reader = RepeatedRequests(ANALYSES)
    for turn, body in enumerate(agent_requests(40)):
        parsed.clear()
        fields, _ = reader.read(body, "session")
        assert fields == wanted(body)
        assert (fields["messages"], fields["tools"]) == (2 * turn + 1, 16)
    assert len(body) > 100_000
    assert 0 < sum(parsed) < 15_000


def test_the_new_part_of_a_turn_is_not_parsed_when_it_is_a_heap_of_values():
    reader = Reader()
    first = f'{{"model":"m","messages":[{ROLE},{ROLE}'.ljust(40_000) + "]}"
    assert reader.read(first.encode())["messages"] == 2
    heap = f',{{"role":"user","content":[{"[]," * 600_000}0]}}'
    second = f'{{"model":"m","messages":[{ROLE},{ROLE}{heap}]}}'
    assert reader.read(second.encode()) == {}
