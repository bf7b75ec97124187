import hashlib
from types import SimpleNamespace
from unittest import mock

from hypothesis import given, strategies as st

from store.traces.bodies import bodies, pieces
from store.traces.bodies.bodies import RequestPreparer, prepare_request
from tests.store.traces.bodies.test_pieces import FRAGMENTS, small_bounds
from tests.store.traffic import agent_requests
from wire.conversation_memory import ConversationMemory, Findings, shared_length


class OneConversation[T](Findings[T]):
    """Compares each request with the one before."""

    def guess_key(self, *_):
        return ()


texts = st.sampled_from(FRAGMENTS[:-1]) | st.text(max_size=8).map(str.encode)
fragments = texts | st.sampled_from([b"\xff", b"\0", b"\xc3"])
# What requests of one conversation may look like: each keeps some of the one before.
conversations = st.lists(
    st.tuples(st.integers(0, 40), st.lists(texts, max_size=30), st.lists(fragments, max_size=1)),
    max_size=6,
)
# Every body is compared with the one before, however small it is.
all_compared = mock.patch.multiple(bodies, MIN_BODY_BYTES=1, Findings=OneConversation, HASH_STEP=16)


@small_bounds
@all_compared
@given(conversations)
def test_what_is_remembered_makes_no_difference(turns):
    preparer = RequestPreparer()
    kept: list[bytes] = []
    for keeps, new, odd in turns:
        kept = kept[:keeps] + new
        body = b"".join(kept + odd)
        assert preparer.prepare(body) == prepare_request(body)


@all_compared
def test_nor_does_it_for_an_agent():
    preparer = RequestPreparer()
    for body in agent_requests(40):
        assert preparer.prepare(body) == prepare_request(body)


def test_of_a_turn_only_what_is_new_is_cut(monkeypatch):
    hashed: list[int] = []
    digest = pieces.digest

    def count_and_digest(data):
        hashed.append(len(data))
        return digest(data)

    monkeypatch.setattr(pieces, "digest", count_and_digest)
    preparer = RequestPreparer()
    for body in agent_requests(40):
        hashed.clear()
        preparer.prepare(body)
    assert len(body) > 100_000
    assert sum(hashed) < 15_000


def test_of_a_turn_little_more_than_what_is_new_is_hashed(monkeypatch):
    hashed: list[int] = []

    class Sha256:
        def __init__(self, state=None):
            self.state = hashlib.sha256() if state is None else state

        def copy(self):
            return Sha256(self.state.copy())

        def update(self, data):
            hashed.append(len(data))
            self.state.update(data)

        def digest(self):
            return self.state.digest()

    monkeypatch.setattr(bodies, "hashlib", SimpleNamespace(sha256=Sha256))
    preparer = RequestPreparer()
    *_, before, last = agent_requests(40)
    preparer.prepare(before)
    hashed.clear()
    assert preparer.prepare(last).sha256 == hashlib.sha256(last).digest()
    new = len(last) - shared_length(before, last)
    assert sum(hashed) < new + bodies.HASH_STEP
    assert len(last) > 100_000


def test_small_bodies_are_not_remembered():
    memory = ConversationMemory()
    RequestPreparer(memory).prepare(b"small")
    assert len(memory) == 0


def test_digests_are_looked_up_by_few_statements():
    digests = [b"%d" % n for n in range(bodies.DIGESTS_AT_ONCE)]
    padded = [bodies._pad(tuple(digests[:count])) for count in range(1, len(digests) + 1)]
    assert len({len(each) for each in padded}) <= 8
    assert [set(each) for each in padded] == [set(digests[: n + 1]) for n in range(len(digests))]
