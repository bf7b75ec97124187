"""Labels and notes by the API: what is ordered, and what is refused."""

from urllib.parse import quote

import pytest

from store.control import annotation_orders
from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry


@pytest.fixture
def call(traces_path):
    entry = make_entry(session_id="s/1 ä")
    with TraceDatabase(traces_path) as traces:
        traces.insert([entry])
    return entry


@pytest.fixture
def ordered(settings):
    def read():
        with ControlDatabase(settings.control_path) as control, control.reading() as db:
            found = [
                annotation_orders.list_of(db, each, 100)
                for each in annotation_orders.list_organizations(db)
            ]
        return [(each.subject, each.label, each.text) for orders in found for each in orders]

    return read


def test_labels_and_notes_are_ordered_for_sessions_and_calls(ask, ann, call, ordered):
    session = quote(call.session_id)
    for method, path in (
        ("PUT", f"/labels/session/{session}/Slow%20one"),
        ("DELETE", f"/labels/call/{call.entry_id}/odd"),
        ("PUT", "/labels/call/1/odd"),
    ):
        response = ask("bob", method, path)
        assert (response.status_code, response.json()) == (200, {"ok": True}), path
    assert ann("PUT", f"/notes/session/{session}", json={"text": "A note."}).status_code == 200
    assert ann("DELETE", "/notes/call/1").status_code == 200
    assert ordered() == [
        ("s/1 ä", "slow one", None),
        (call.entry_id, "odd", None),
        (call.entry_id, "odd", None),
        ("s/1 ä", None, "A note."),
        (call.entry_id, None, None),
    ]


def test_others_are_refused(ann, call, ordered, subtests):
    for method, path, body, status in (
        ("PUT", "/labels/session/none/slow", None, 404),
        ("PUT", "/labels/call/77/slow", None, 404),
        ("PUT", "/labels/calls/1/slow", None, 404),
        ("PUT", f"/labels/call/1/{'x' * 41}", None, 400),
        ("PUT", "/labels/call/1/a%0Ab", None, 400),
        ("PUT", "/notes/call/1", {"text": ""}, 400),
        ("PUT", "/notes/call/1", {"text": "x" * 2_001}, 400),
        ("PUT", "/notes/call/1", {"text": 1}, 400),
        ("PUT", "/notes/call/1", {"text": "x", "by": "y"}, 400),
        ("PUT", "/notes/session/none", {"text": "x"}, 404),
        ("DELETE", "/notes/session/none", None, 404),
    ):
        with subtests.test(method, path=path[:40]):
            assert ann(method, path, json=body).status_code == status
            assert ordered() == []


def test_those_of_other_organisations_are_not_there(ask, call, ordered):
    assert ask("cid", "PUT", f"/labels/call/{call.entry_id}/slow").status_code == 404
    assert ask("cid", "PUT", "/notes/call/1", json={"text": "x"}).status_code == 404
    assert ordered() == []
