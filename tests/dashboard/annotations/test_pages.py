"""The forms for labels and notes: what they send is written, and they lead back."""

import re
from datetime import UTC
from typing import Any

import pytest

from dashboard import rendering
from dashboard.annotations import pages
from recorder.annotations import AnnotationWork
from recorder.open_databases import OpenDatabases
from store.control import annotation_orders
from store.traces.annotations import NOTHING, Annotations, Label, Note
from store.traces.bodies.bodies import RequestPreparer

MARKUP: Any = rendering._templates.get_template("_annotations.html").make_module({"zone": UTC})
FOUND = Annotations(
    labels=[Label(label="slow & odd", by=None, at="2026-01-02T03:04:05.678Z")],
    note=Note(text="<b>Why?</b>", by="ann@example.org", at="2026-01-02T03:04:05.678Z"),
)


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch):
    """There is no recorder here."""
    monkeypatch.setattr(pages, "PATIENCE_S", 0.0)


def ordered(control, person):
    with control.reading() as db:
        found = annotation_orders.list_of(db, person.organization_id, 100)
    return [(each.kind, each.subject, each.label, each.text, each.is_removal) for each in found]


def test_forms_order_and_lead_back(ann, control):
    ann.record(session_id="s/1")
    (entry_id,) = [ann.get("/traces/usage/1.json?_shape=array").json()[0]["entry_id"]]
    for path, form, page in (
        ("/labels", {"kind": "session", "id": "s/1", "label": "Slow"}, "/sessions/s%2F1"),
        ("/labels", {"kind": "call", "id": "1", "remove": "odd"}, "/calls/1"),
        ("/notes", {"kind": "call", "id": "1", "text": "A note."}, "/calls/1"),
        ("/notes", {"kind": "session", "id": "s/1", "text": " "}, "/sessions/s%2F1"),
    ):
        response = ann.post(path, **form)
        assert (response.status_code, response.headers["location"]) == (303, page)
    assert ordered(control, ann) == [
        ("session", "s/1", "slow", None, False),
        ("call", entry_id, "odd", None, True),
        ("call", entry_id, None, "A note.", False),
        ("session", "s/1", None, None, True),
    ]


def test_a_form_waits_until_the_recorder_has_written_it(ann, control, settings, monkeypatch):
    ann.record(session_id="s1")
    rounds = []

    async def record(_seconds):
        rounds.append(1)
        databases = OpenDatabases(settings.data_dir, RequestPreparer())
        work = AnnotationWork(settings.data_dir, settings.control_path, databases, lambda: 1.0)
        work.run_step()
        work.close()
        databases.close_all()

    monkeypatch.setattr(pages, "PATIENCE_S", 60.0)
    monkeypatch.setattr(pages, "sleep", record)
    assert ann.post("/labels", kind="session", id="s1", label="slow").status_code == 303
    assert (rounds, ordered(control, ann)) == ([1], [])
    (row,) = ann.get("/traces/labels.json?_shape=array").json()
    assert (row["session_id"], row["label"], row["by"]) == ("s1", "slow", ann.email)


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        ("/labels", {"kind": "session", "id": "none", "label": "slow"}, 404),
        ("/labels", {"kind": "page", "id": "s1", "label": "slow"}, 404),
        ("/labels", {"kind": "session", "id": "s1", "label": "x" * 41}, 400),
        ("/labels", {"kind": "session", "id": "s1"}, 400),
        ("/notes", {"kind": "session", "id": "s1", "text": "x" * 2_001}, 400),
        ("/notes", {}, 404),
    ],
)
def test_what_is_not_valid_is_refused(ann, control, path, form, status):
    ann.record(session_id="s1")
    assert ann.post(path, **form).status_code == status
    assert ordered(control, ann) == []


def test_only_who_is_signed_in_writes(ann, cid, stranger, control):
    ann.record(session_id="s1")
    form = {"kind": "session", "id": "s1", "label": "slow"}
    here = {"origin": "http://meter.example:8080"}
    assert (
        stranger.post("/labels", data=form, headers=here).headers["location"].startswith("/sign-in")
    )
    assert cid.post("/labels", **form).status_code == 404
    assert ordered(control, ann) == []


def test_labels_and_a_note_are_shown_with_their_forms():
    items = MARKUP.label_items("session", "s/1", FOUND, "/sessions?label=")
    assert 'href="/sessions?label=slow%20%26%20odd"' in items
    assert "slow &amp; odd" in items
    assert 'name="remove" value="slow &amp; odd"' in items
    note = MARKUP.note("session", "s/1", FOUND)
    assert "&lt;b&gt;Why?&lt;/b&gt;" in note
    assert "ann@example.org" in note
    assert 'action="/notes"' in note


def test_without_a_note_there_is_a_form_for_one():
    assert 'action="/notes"' in MARKUP.label_items("call", 7, NOTHING, "/calls?label=")
    assert MARKUP.note("call", 7, NOTHING).strip() == ""
    assert 'name="id" value="7"' in MARKUP.label_items("call", 7, NOTHING, "/calls?label=")


def test_who_is_not_signed_in_gets_no_forms():
    markup = MARKUP.label_items("call", 7, FOUND, "/calls?label=", with_forms=False) + MARKUP.note(
        "call", 7, FOUND, with_forms=False
    )
    assert "slow &amp; odd" in markup
    assert "<form" not in markup
    assert (
        re.sub(r"\s", "", MARKUP.label_items("call", 7, NOTHING, "/calls?label=", with_forms=False))
        == ""
    )
