"""Lines of exports, as they are read."""

import json
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from types import NoneType, UnionType
from typing import TypeAliasType, get_args, get_origin, get_type_hints

import orjson
import pytest

from metering.entry import UsageLogEntry
from metering.rate_limits import RateLimits
from metering.tool_results import ToolResult
from metering.tool_uses import ToolUse
from store.annotation_rules import Subject
from store.call_imports import store_lines
from store.traces.annotations import (
    NOTHING,
    Annotations,
    Label,
    Note,
    read_of_call,
    read_of_session,
    write_note,
)
from store.traces.calls.call_list import read_calls
from store.traces.calls.exported_call import DETAILS, encode_entry, parse_document, parse_row
from store.traces.calls.judgements import Judgement
from store.traces.calls.line_fields import LineError
from store.traces.calls.reader import BODIES, EntryFilter
from store.traces.database import TraceDatabase
from tests.store.traffic import make_break, make_entry, make_item

BREAK = make_break(
    previous_entry_id="first", extra_cost_cents=0.1, estimated=True, detail="It broke."
)
ENTRIES = [
    make_entry(entry_id="first", created_at="2026-01-02T00:00:00.000Z"),
    make_entry(
        entry_id="second",
        created_at="2026-01-02T00:00:01.000Z",
        request_body="{“ü”}\n".encode(),
        response_body=b"\xff\x00",
        rate_limits=RateLimits(overage_in_use=True, retry_after_s=0.1),
        overage=False,
        billing="subscription",
        cost_cents=Decimal("0.3"),
        cost_items=(make_item(cents=Decimal("0.1"), estimated=True),) * 3,
        tool_uses=(
            ToolUse(tool="Bash", target="pytest", result=ToolResult(7, "exit 1")),
            ToolUse(tool="find", server="maps", plus=2, minus=1),
            ToolUse(tool=None, result=ToolResult(9)),
        ),
    ),
]
JUDGEMENT = Judgement(
    entry_id="second", previous_entry_id="first", failed_tools="Bash, Read", cache_break=BREAK
)


def read_lines(path):
    page = read_calls(path, "org", EntryFilter(), None, 10, with_bodies=True)
    return json.loads(b"".join(page.encode_items()))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "traces.db"
    with TraceDatabase(path) as traces:
        traces.insert(ENTRIES, [JUDGEMENT])
        return read_lines(path)


@pytest.fixture
def rows(exported):
    return deepcopy(exported)


def parse(row, **changes):
    return parse_row(row | changes)


def test_a_line_has_all_of_a_call(rows):
    first, second = map(parse, rows)
    assert [first.entry, second.entry] == ENTRIES
    assert (first.judgement, second.judgement) == (None, JUDGEMENT)
    assert second.organization_id == "org"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.entry_id)
def test_an_entry_that_was_not_recorded_becomes_the_same_line(entry):
    call = parse_row(orjson.loads(encode_entry("org", entry)))
    assert (call.organization_id, call.entry, call.judgement) == ("org", entry, None)


def find_sample(kind):
    """Return a value of an optional field that is not None."""
    if get_origin(kind) is UnionType:
        return find_sample(next(each for each in get_args(kind) if each is not NoneType))
    if isinstance(kind, TypeAliasType):
        return get_args(kind.__value__)[-1]
    return {str: "some", int: 7, float: 0.1, bool: True, Decimal: Decimal("0.1")}[kind]


def test_no_field_is_left_out(traces, traces_path):
    """Neither one that is added later."""
    known = {
        "entry_id",
        "created_at",
        "tokens",
        "cost_items",
        "rate_limits",
        "output_size",
        "tool_uses",
        *BODIES,
    }
    hints = get_type_hints(UsageLogEntry)
    fields = {name: find_sample(hints[name]) for name in hints.keys() - known}
    entry = make_entry(**fields | {"tags": '["env:prod","some"]'})
    traces.insert([entry])
    (row,) = read_lines(traces_path)
    assert parse(row).entry == entry
    assert parse_row(orjson.loads(encode_entry("org", entry))).entry == entry


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("attributed_user", "two words"),
        ("project", "x" * 65),
        ("tags", "[]"),
        ("tags", '["b","a"]'),
        ("tags", '["user:ann"]'),
        ("tags", "some"),
    ],
)
def test_users_projects_and_tags_that_no_call_has_are_refused(rows, column, value):
    with pytest.raises(LineError, match="its user, project or tags"):
        parse(rows[0], **{column: value})


def test_what_other_tables_have_comes_after_the_columns_and_bodies(rows):
    assert list(rows[0])[-len(BODIES + DETAILS) :] == [*BODIES, *DETAILS]


def test_a_break_names_a_call_that_was_removed(traces, traces_path):
    traces.insert(ENTRIES, [JUDGEMENT])
    traces.prune(before=ENTRIES[1].created_at, pause=lambda _s: None)
    (row,) = read_lines(traces_path)
    assert row["predecessor"] is None
    assert parse(row).judgement == replace(JUDGEMENT, failed_tools=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entry_id": None}, "its entry_id is not"),
        ({"entry_id": "a b"}, "its entry_id is none"),
        ({"created_at": "2026-01-02"}, "its created_at is not like"),
        ({"created_at": "yesterday"}, "its created_at is not like"),
        ({"organization_id": 7}, "its organization_id is not"),
        ({"slug": None}, "its slug is not"),
        ({"outcome": "fine"}, "its outcome is not"),
        ({"streamed": 2}, "its streamed is not"),
        ({"input_tokens": "many"}, "its input_tokens is not"),
        ({"input_tokens": 2**63}, "its input_tokens is not"),
        ({"duration_ms": True}, "its duration_ms is not"),
        ({"cost_cents": "1"}, "its cost_cents is not"),
        ({"model": ["x"]}, "its model is not"),
        ({"request_body": 7}, "its request_body is neither"),
        ({"request_body": {"$base64": True, "encoded": "?"}}, "its request_body is neither"),
        ({"request_body": {"$base64": True}}, "its request_body is neither"),
        ({"cost_items": None}, "its cost_items is not"),
        ({"cost_items": [7]}, "its cost_items is not"),
        ({"cost_items": [{}]}, "its pass_index is not"),
        ({"rate_limits": []}, "its rate_limits is not"),
        ({"rate_limits": {"requests_limit": "x"}}, "its requests_limit is not"),
        ({"tool_uses": None}, "its tool_uses is not"),
        ({"tool_uses": ["Bash"]}, "its tool_uses is not"),
        ({"tool_uses": [{"tool": 7}]}, "its tool is not"),
        ({"predecessor": "first"}, "its predecessor is not"),
        ({"predecessor": {"failed_tools": "x"}}, "its entry_id is not"),
        ({"cache_break": {}}, "its previous_entry_id is not"),
    ],
)
def test_what_no_export_writes_is_refused_with_its_field(rows, changes, message):
    with pytest.raises(LineError, match=message):
        parse(rows[1], **changes)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "it is not JSON"),
        (b'"\xff"', "it is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b"{}", "it has no request_body: export with --bodies"),
    ],
)
def test_what_is_no_line_of_an_export_is_refused(line, message):
    with pytest.raises(LineError, match=message):
        parse_row(parse_document(line))


def test_a_column_that_is_missing_is_null(rows):
    row = {name: value for name, value in rows[0].items() if name not in ("ttfb_ms", "message_id")}
    assert parse(row).entry == ENTRIES[0]


def test_a_line_of_0_1_0_is_of_messages(rows):
    del rows[0]["product"]
    assert parse(rows[0]).entry.product == "messages"


def test_what_0_1_0_has_not_exported_is_read_from_the_response(rows):
    del rows[0]["tool_uses"]
    blocks = [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "/a"}},
    ]
    entry = parse(rows[0], response_body=json.dumps({"type": "message", "content": blocks})).entry
    assert entry.tool_uses == (ToolUse(tool="Read", target="/a"),)
    assert entry.said_text == "I look."
    assert parse(rows[0], response_body=None).entry.tool_uses == ()


LABELLED = Annotations(
    labels=(Label(label="odd", by="ann@example.org", at="2026-01-02T03:00:00.000Z"),),
    note=Note(text="Look.\nAgain.", by=None, at="2026-01-02T04:00:00.000Z"),
)


def test_a_line_has_the_labels_and_the_note_of_its_call(traces, traces_path, tmp_path):
    traces.insert(ENTRIES)
    traces.annotate([("second", LABELLED), ("first", NOTHING), ("gone", LABELLED)])
    rows = read_lines(traces_path)
    assert [parse(row).annotations for row in rows] == [NOTHING, LABELLED]
    with TraceDatabase(tmp_path / "other.db") as other:
        for _ in range(2):
            store_lines(other, [orjson.dumps(row) for row in rows])
        assert read_of_call(other.connection, 1) == NOTHING
        assert read_of_call(other.connection, 2) == LABELLED
        mine = Note(text="Mine.", by=None, at="2026-01-03")
        write_note(other.connection, Subject("call", "second"), 2, mine)
        store_lines(other, [orjson.dumps(row) for row in rows])
        assert read_of_call(other.connection, 2).note == mine


def test_a_line_has_the_labels_and_the_note_of_its_session(traces, traces_path, tmp_path):
    _, two, three, four = entries = [
        make_entry(entry_id=f"entry-{number}", session_id="s" if number < 3 else None)
        for number in range(1, 5)
    ]
    follows = Judgement(entry_id=four.entry_id, previous_entry_id=three.entry_id)
    traces.insert(entries, [follows])
    traces.annotate([], [(two.entry_id, LABELLED), (four.entry_id, LABELLED), ("gone", LABELLED)])
    rows = read_lines(traces_path)
    assert [parse(row).session_annotations for row in rows] == [LABELLED] * 4
    with TraceDatabase(tmp_path / "other.db") as other:
        other.insert([make_entry(entry_id="before")])  # so that unnamed sessions have other ids
        for _ in range(2):
            store_lines(other, [orjson.dumps(row) for row in rows])
        assert read_of_session(other.connection, "s") == LABELLED
        assert read_of_session(other.connection, "unnamed-4") == LABELLED
        assert read_of_call(other.connection, 2) == NOTHING
        assert parse(rows[0], session_annotations=None).session_annotations == NOTHING
        with pytest.raises(LineError, match="its note is not"):
            parse(rows[0], session_annotations={"labels": [], "note": "Look."})


def test_a_line_of_before_there_were_labels_has_none(rows):
    old = {name: value for name, value in rows[0].items() if name != "annotations"}
    assert parse(old).annotations == NOTHING


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"labels": "odd"},
        {"labels": [{"label": 1, "by": None, "at": "x"}]},
        {"labels": [{"label": "x" * 41, "by": None, "at": "x"}]},
        {"labels": [], "note": {"text": "", "by": None, "at": "x"}},
        {"labels": [], "note": "Look."},
    ],
)
def test_labels_and_notes_that_nobody_may_give_are_refused(rows, value):
    with pytest.raises(LineError):
        parse(rows[0], annotations=value)
