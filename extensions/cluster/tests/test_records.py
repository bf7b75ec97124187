"""A record that passes is one that a node could have written, whatever the bytes are."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest
import zstandard
from hypothesis import given, strategies as st

from extensions.cluster import log, records
from extensions.cluster.buckets import BUCKETS, find_bucket
from extensions.cluster.checks import RecordError
from extensions.cluster.erasure_copies import ErasureCopy
from extensions.cluster.log import LoggedFile, decode, encode, stream_name
from extensions.cluster.records import (
    BudgetReport,
    Member,
    Move,
    Offer,
    PublishedOrder,
    Report,
    Wish,
)
from extensions.cluster.shared_rows import check_row
from store.budget_file import ReachedBudget, pack
from store.control.alerts import Alert as RuleAlert
from store.control.budget_alerts import Alert
from store.spool.format import SpoolError
from store.traces.maintenance.criteria import Criteria

ID, OTHER_ID = "0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a90", "0199aab3-6c1e-7d1a-9a1b-0c5d2e7f8a91"
NOW = "2026-01-02T03:04:05.678Z"
ORGANIZATION = "org-1"
BUCKET = find_bucket(ORGANIZATION)
MOVE = Move(id=ID, group="main", bucket=BUCKET, giver="a", taker="b")
OFFER = Offer(
    attempt=ID, files=[(f"{ORGANIZATION}/traces.db", 7), (f"{ORGANIZATION}/secrets.db", 0)]
)
WISH = Wish(attempt=ID, name=f"{ORGANIZATION}/traces.db", offset=4)
ORDER = PublishedOrder(
    id=ID,
    organization_id=ORGANIZATION,
    ordered_at=NOW,
    criteria=Criteria(session="s\n\x00", since=NOW),
    shipped=None,
)
REPORT = Report(
    states=[ErasureCopy(erasure_id=ID, node="a", copy="main", entries=3, erased_at=NOW)],
    clear=[ID],
)
REACHED = ReachedBudget(
    organization_id=ORGANIZATION,
    subject_id="endpoint",
    period="day",
    starts_s=0.0,
    resets_s=1e9,
    resets_at=NOW,
)
ALERT = Alert(
    id=ID,
    organization_id=ORGANIZATION,
    proxy_endpoint_id=None,
    slug=None,
    period="month",
    starts_at=NOW,
    resets_at=NOW,
    limit_usd=1.5,
    spent_usd=2.0,
    percent=100,
    action="refuse",
    created_at=NOW,
)
FIRED = RuleAlert(
    id=ID,
    organization_id=ORGANIZATION,
    rule_id=ID,
    occasion="2026-01-02",
    kind="day_cost",
    subject="2026-01-02 costs $12",
    sentence="so far, over $10.",
    link="/calls",
    at=NOW,
)
BUDGETS = BudgetReport(reached=[REACHED], alerts=[ALERT], fired=[FIRED])
PARSERS: dict[str, tuple[Callable[[bytes], Any], bytes, Any]] = {
    "move": (records.parse_move, MOVE.pack(), MOVE),
    "offer": (partial(records.parse_offer, move=MOVE), OFFER.pack(), OFFER),
    "wish": (records.parse_wish, WISH.pack(), WISH),
    "order": (partial(records.parse_order, id_=ID), ORDER.pack(), ORDER),
    "report": (partial(records.parse_report, node="a"), REPORT.pack(), REPORT),
    "budgets": (records.parse_budget_report, BUDGETS.pack(), BUDGETS),
    "reached": (records.parse_reached, pack([REACHED]), [REACHED]),
    "member": (partial(records.parse_member, "a"), b'["main", "h:1"]', Member("main", "h:1")),
    "row": (
        partial(check_row, "organizations:a"),
        b'{"id":"a","name":"N","created_at":"2026","time_zone":"UTC"}',
        b'{"id":"a","name":"N","created_at":"2026","time_zone":"UTC"}',
    ),
    "key": (records.parse_checking_key, b"k" * 32, b"k" * 32),
    "holder": (records.parse_node, b"a", "a"),
}
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 1 << 60, 1.5, -0.5, 1e300, "", "..", "../x", "/etc", "a/b", "a\0b"),
    *("x" * 20_000, "\ud7ff", "~", "*", [], {}, [[]], [None], {"a": 1}, [1, 2], ["a", -1]),
)
# What people or programs may name as they like.
ANY_TEXT: dict[str, list[tuple[str | int, ...]]] = {
    **{name: [] for name in PARSERS},
    "budgets": [
        ("alerts", 0, "of_value"),
        *(("fired", 0, name) for name in ("occasion", "subject", "sentence", "link")),
    ],
    "order": [("criteria",)],
    "wish": [("refusal",)],
    "row": [("name",), ("time_zone",)],
}


@pytest.mark.parametrize("name", PARSERS)
def test_what_a_node_writes_is_read_back(name):
    parse, content, expected = PARSERS[name]
    assert parse(content) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
@given(content=st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.text(max_size=20)
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
).map(orjson.dumps))  # fmt: skip
def test_any_bytes_are_a_record_or_an_error(name, content):
    parse, _, expected = PARSERS[name]
    with suppress(RecordError):
        assert type(parse(content)) in (type(expected), type(None))


def find_places(value, place=()):
    """Yield the way to every value in JSON."""
    yield place
    pairs = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else pairs:
        yield from find_places(each, (*place, key))


def put(value, place, hostile):
    """Return JSON with another value at a place."""
    if not place:
        return hostile
    copy = value.copy()
    copy[place[0]] = put(copy[place[0]], place[1:], hostile)
    return copy


@pytest.mark.parametrize("name", [name for name in PARSERS if name not in ("key", "holder")])
def test_a_field_has_what_a_node_writes_or_the_record_is_none(name):
    """Look that what passes is of the same types, and that no name in it leads elsewhere."""
    parse, content, expected = PARSERS[name]
    found = orjson.loads(content)
    for place in find_places(found):
        for hostile in HOSTILE:
            try:
                record = parse(orjson.dumps(put(found, place, hostile)))
            except RecordError:
                continue
            assert type(record) is type(expected)
            if not {place, place[:1]} & {*ANY_TEXT[name]}:
                assert "../" not in repr(record), (place, hostile)
                assert "/etc" not in repr(record), (place, hostile)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"NaN",
        b"1e999",
        b"\xff",
        b"",
        b"[" + b"0," * 4_500_000 + b"0]",
    ],
)
@pytest.mark.parametrize("name", [name for name in PARSERS if name not in ("key", "holder")])
def test_a_bomb_is_no_record(name, content):
    with pytest.raises(RecordError):
        PARSERS[name][0](content)


def test_an_offer_is_of_files_of_the_bucket_that_the_store_makes():
    other = next(each for each in map("org-{}".format, range(99)) if find_bucket(each) != BUCKET)
    for name in (f"{other}/traces.db", f"{ORGANIZATION}/x.db", f"{ORGANIZATION}/../traces.db"):
        with pytest.raises(RecordError):
            records.parse_offer(replace(OFFER, files=[(name, 1)]).pack(), MOVE)
    with pytest.raises(RecordError, match="twice"):
        records.parse_offer(replace(OFFER, files=[OFFER.files[0]] * 2).pack(), MOVE)


def test_a_move_is_of_its_field_and_between_two_nodes():
    assert records.parse_move(MOVE.pack(), MOVE.field) == MOVE
    with pytest.raises(RecordError):
        records.parse_move(MOVE.pack(), f"main:{(BUCKET + 1) % BUCKETS}")
    with pytest.raises(RecordError):
        records.parse_move(replace(MOVE, taker="a").pack())


def test_a_piece_is_no_longer_than_the_rest_of_its_file():
    content = records.pack_piece(WISH, b"abc")
    assert records.parse_piece(content, WISH, 3) == b"abc"
    assert records.parse_piece(content, replace(WISH, attempt=OTHER_ID), 3) == b""
    with pytest.raises(RecordError):
        records.parse_piece(content, WISH, 2)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../x~org-1.done",
            "x~../y.done",
            f"{'x' * 300}~org-1.done",
            "x~org-1.open",
            "org-1.done",
        ),
        *(f"x~{'o' * 65}.done", "x~org-1~/../y.done", "x~org-1.done\n", "\0~org-1.done"),
    ],
)
def test_an_entry_of_the_log_names_a_spool_file(name):
    with pytest.raises(SpoolError):
        decode(stream_name(BUCKET), {b"v": b"1", b"name": name.encode(), b"f": b""})


def test_an_entry_is_of_the_bucket_of_its_organization():
    fields = encode(LoggedFile("0001~org-1~run.1.done", b"x"))
    assert decode(stream_name(BUCKET), fields).name == "0001~org-1~run.1.done"
    for stream in (stream_name((BUCKET + 1) % BUCKETS), "taximeter:copies"):
        with pytest.raises(SpoolError, match="another bucket"):
            decode(stream, fields)


def test_an_entry_that_says_that_it_becomes_huge_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(log, "MAX_FILE_BYTES", 1000)
    bomb = zstandard.ZstdCompressor().compress(b"0" * 1001)
    with pytest.raises(SpoolError, match="more than 1000 bytes"):
        decode(stream_name(BUCKET), {b"v": b"1", b"name": b"x~org-1.done", b"z": bomb})
