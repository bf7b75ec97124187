"""Whoever may write on the server writes anything there: nodes lose no folder, no call and no loop."""

from collections.abc import Iterator

import orjson
import pytest

from extensions.cluster import keys, records, server
from extensions.cluster.log import find_bucket, stream_name
from extensions.cluster.tests.three_nodes import BUCKET, ORGANIZATION, OTHER, Cluster
from runtime import clock
from tests.redis_server import RedisServer

pytestmark = pytest.mark.live  # a Redis server of its own

MOVE_ID = "0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90"
NAMES = {value for name, value in vars(keys).items() if name.isupper()}
KEYS = sorted(
    {
        keys.LOG: stream_name(BUCKET),
        keys.BUCKETS: f"{keys.BUCKETS}main",
        keys.PIECES: f"{keys.PIECES}{MOVE_ID}",
        keys.LIMITS: f"{keys.LIMITS}messages default",
    }.get(name, name)
    for name in NAMES
)
RECEIVER_NEEDS = {keys.COPIES, keys.NODES, f"{keys.BUCKETS}main"}
PATHS = ("..", "../victim", "/etc", "a/../../victim", ".", "", "x" * 5000, "\0", "\ud7ff", "~", "*")
MOST_BYTES = 200_000  # of a record, less than by default
BOMB = b"[" * 20_000
RAW = (
    *(b"", b"\xff\xfe" * 500, b"null", b"NaN", b"-1", b"1e999", b"[]", b"{}", b'"x"', b"[[[[]]]]"),
    *(BOMB, b'{"a":' * 5000, b"9" * 5000, b"x" * (MOST_BYTES + 1)),
    *(path.encode() for path in PATHS),
)


@pytest.fixture(scope="module")
def shared(
    shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, server.Client]]:
    shared_redis.renew()
    client = server.connect(shared_redis.url)
    cluster = Cluster(tmp_path_factory.mktemp("nodes"), lambda _: shared_redis.url)
    with shared_redis.waiting_exactly():
        yield cluster, client
    cluster.close()
    client.close()


@pytest.fixture
def client(shared):
    return shared[1]


@pytest.fixture
def cluster(shared, monkeypatch):
    monkeypatch.setattr("extensions.cluster.receiver.BLOCK_MS", 1)
    monkeypatch.setattr("extensions.cluster.copies.RENEW_S", 0.0)
    monkeypatch.setattr("extensions.cluster.checks.MOST_BYTES", MOST_BYTES)
    found, client = shared
    client.delete(keys.MOVES, keys.MOVES_SAID)
    client.hdel(keys.NODES, "x")
    if found.count:
        client.hset(f"{keys.BUCKETS}main", mapping=dict.fromkeys(range(64), found.node))
    found.turn(2)
    if not found.count:
        found.arrives(ORGANIZATION)
    return found


def put(client, key, kind):
    """Put something of another kind in the place of a key, with hostile content."""
    client.delete(key)
    if kind == "string":
        client.set(key, b"x" * MOST_BYTES)
    elif kind == "hash":
        fields = {**dict.fromkeys(PATHS, BOMB), **{f"{n}": each for n, each in enumerate(RAW)}}
        client.hset(key, mapping={name.encode("utf-8", "replace"): v for name, v in fields.items()})
    elif kind == "list":
        client.rpush(key, *(each[:1000] for each in RAW))
    elif kind == "stream":
        for each in RAW:
            client.xadd(key, {b"v": b"1", b"name": each[:1000], b"f": each[:1000]})


@pytest.mark.parametrize("key", KEYS)
def test_nothing_of_a_node_is_lost_by_what_is_in_a_key(cluster, client, key):
    before = cluster.folders() | {"recorder/incoming"}
    saved = client.dump(key)
    for kind in ("string", "hash", "list", "stream"):
        put(client, key, kind)
        cluster.turn(2)
        if key not in RECEIVER_NEEDS:
            cluster.arrives(OTHER)
        assert cluster.folders() <= before | {"recorder/spool/unreadable"}
        assert before <= cluster.folders() | {"recorder/incoming"}
    client.delete(key)
    if saved is not None:
        client.restore(key, 0, saved)
    cluster.turn(2)
    cluster.arrives(OTHER)
    cluster.arrives(ORGANIZATION)


@pytest.mark.parametrize("key", [key for key in KEYS if "log" not in key and "limit" not in key])
def test_no_content_of_a_record_ends_a_loop(cluster, client, key):
    before = cluster.folders()
    is_hash = client.type(key) == b"hash" or key in (keys.MOVES, keys.MOVES_SAID, keys.ERASURES)
    fields = {*client.hkeys(key)[:3], cluster.node, f"main:{BUCKET}"} if is_hash else set()
    saved = client.dump(key)
    for content in RAW:
        if is_hash:
            client.hset(key, mapping=dict.fromkeys(fields, content))
        elif key != keys.COPIES:
            client.set(key, content)
        cluster.turn()
        assert before <= cluster.folders()
    client.delete(key)
    if saved is not None:
        client.restore(key, 0, saved)
    cluster.turn(2)
    cluster.arrives(ORGANIZATION)


def order(client, cluster, **fields):
    """Write a move as somebody else would."""
    move = {"id": MOVE_ID, "group": "main", "bucket": BUCKET, "giver": cluster.node, "taker": "x"}
    move |= fields
    client.hset(keys.MOVES, f"{move['group']}:{move['bucket']}", orjson.dumps(move))


@pytest.mark.parametrize("path", PATHS)
def test_no_name_in_a_move_becomes_a_path(cluster, client, path):
    before = cluster.folders() | {"recorder/incoming"}
    client.hset(keys.NODES, "x", b'["main", "x:1"]')
    empty = next(bucket for bucket in range(64) if bucket not in {BUCKET, find_bucket(OTHER)})
    client.hset(f"{keys.BUCKETS}main", empty, "x")
    for name in ("id", "group", "giver", "taker"):
        order(client, cluster, **{"giver": "x", "taker": cluster.node, "bucket": empty, name: path})
        cluster.turn()
    order(client, cluster, giver="x", taker=cluster.node, bucket=empty)
    for found in (path, f"{path}/traces.db", f"org-1/{path}", f"{ORGANIZATION}/traces.db"):
        offer = {"attempt": clock.new_id(), "files": [[found, 5]]}
        client.hset(keys.MOVES_SAID, f"{MOVE_ID}:from", orjson.dumps(offer))
        wish = records.Wish(attempt=f"{offer['attempt']}", name=found)
        client.set(f"{keys.PIECES}{MOVE_ID}", records.pack_piece(wish, b"piece"))
        cluster.turn(2)  # it would ask for the file, and then write it
    assert cluster.folders() <= before
    assert (cluster.victim / "file").read_text() == "here"
    cluster.arrives(ORGANIZATION)


def test_a_bucket_that_was_not_given_is_not_removed(cluster, client):
    """The server alone says that another node has it."""
    before = cluster.folders()
    client.hset(keys.NODES, "x", b'["main", "x:1"]')
    order(client, cluster)
    client.hset(f"{keys.BUCKETS}main", BUCKET, "x")
    wish = {"attempt": None, "name": "", "offset": 0, "is_complete": True, "is_placed": True}
    client.hset(keys.MOVES_SAID, f"{MOVE_ID}:to", orjson.dumps(wish | {"refusal": None}))
    cluster.turn(3)
    assert before <= cluster.folders()
    assert client.hgetall(keys.MOVES) == {}
