"""The page that sends a call again, and what its script gets from the service."""

import html
import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dashboard.replay.checks import check_request
from dashboard.replay.editing import MAX_EDITED_BYTES, lay_out
from runtime.replay_tickets import HEADER, is_valid
from runtime.settings import CLIENT_MARK_VARIABLE
from store.control.management import Management
from tests.dashboard.pages import Page
from tests.dashboard.people import HERE
from tests.proxy_endpoints import create_endpoint

SECRET = "mark"
EVIL = "</textarea><script>alert(1)</script>\u202e\"'<img src=x onerror=alert(1)>"
REQUEST: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "What is in it?"}],
}
JSON = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv(CLIENT_MARK_VARIABLE, SECRET)


@pytest.fixture
def ann(ann, control):
    create_endpoint(control, ann.organization_id, "Team A", "team-a")
    return ann


@pytest.fixture
def cid(cid, control):
    create_endpoint(control, cid.organization_id, "Team C", "team-c")
    return cid


def as_bytes(document):
    return json.dumps(document).encode()


def record(person, **changes):
    fields = {"request_body": as_bytes(REQUEST), "slug": "team-a"} | changes
    return person.record(fields)


def text_of(page, element):
    found = re.search(rf'<textarea id="{element}"[^>]*>\n(.*?)</textarea>', page, re.S)
    assert found is not None
    return html.unescape(found[1])


# -- the page ----------------------------------------------------------------------------------------


def test_the_page_has_the_request_and_the_endpoints(ann):
    record(ann, betas="one,two", api_version="2026-10-21", path_query="/v1/messages?beta=true")
    page = ann.get("/traces/usage/1/replay")
    assert page.status_code == 200
    assert page.headers["cache-control"] == "private, no-store"
    assert json.loads(text_of(page.text, "body")) == REQUEST
    assert 'value="team-a" selected' in page.text
    assert 'value="one,two"' in page.text
    assert 'data-version="2026-10-21" data-beta="true"' in page.text


def test_nothing_of_the_page_can_be_submitted_to_this_service(ann):
    record(ann)
    page = Page(ann.get("/traces/usage/1/replay").text)
    (credential,) = [each for each in page.elements if each.attributes.get("id") == "credential"]
    assert credential.attributes["type"] == "password"
    assert credential.attributes["autocomplete"] == "off"
    controls = [
        each
        for each in page.elements
        if each.tag in ("input", "select", "textarea") and each.is_within("main")
    ]
    assert credential in controls
    for each in controls:
        assert "name" not in each.attributes
        assert not each.is_within("form")
    assert not page.unnamed_controls()
    assert not page.doubled_ids()


def test_a_request_that_was_not_kept_is_written_anew(ann):
    ann.record()
    page = ann.get("/traces/usage/1/replay").text
    assert "was not kept" in page
    assert json.loads(text_of(page, "body"))["messages"]
    assert 'data-request=""' in page


def test_a_request_that_is_too_large_to_edit_is_sent_as_it_is(ann):
    record(ann, request_body=b'"' + b"x" * MAX_EDITED_BYTES + b'"')
    page = ann.get("/traces/usage/1/replay").text
    assert "too large to change here" in page
    assert "<textarea" not in page
    assert 'data-request="/traces/usage/1/request"' in page


def test_markup_of_bodies_stays_text(ann):
    body = as_bytes({"model": EVIL, EVIL: EVIL})
    record(ann, request_body=body, response_body=as_bytes({"content": EVIL}), betas=EVIL)
    page = ann.get("/traces/usage/1/replay").text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert json.loads(text_of(page, "body")) == {"model": EVIL, EVIL: EVIL}


def test_the_page_of_a_call_leads_here(ann):
    record(ann)
    page = ann.get("/calls/1/raw").text
    assert 'href="/traces/usage/1/replay"' in page
    for language in ("curl", "Python", "TypeScript"):
        assert f'href="/calls/1/raw?language={language}"' in page
    assert "import anthropic" in ann.get("/calls/1/raw?language=Python").text
    assert "curl " in ann.get("/calls/1/raw?language=none").text


# -- tickets -----------------------------------------------------------------------------------------


def test_a_member_gets_a_ticket_for_an_endpoint_of_the_organisation(ann):
    record(ann)
    found = ann.get("/traces/usage/1/replay/ticket?endpoint=team-a").json()
    assert found["address"] == f"/proxy/team-a/run/{found['run']}/v1/messages"
    assert found["run"].startswith("replay-")
    assert found["header"] == HEADER
    assert is_valid(found["ticket"], SECRET, "team-a", found["run"], time.time())
    assert ann.get("/traces/usage/1/replay/ticket?endpoint=team-a").json()["run"] != found["run"]
    beta = ann.get("/traces/usage/1/replay/ticket?endpoint=team-a&beta=true").json()
    assert beta["address"].endswith("/v1/messages?beta=true")


@pytest.mark.parametrize("slug", ["team-c", "nowhere", "", "../api"])
def test_there_is_no_ticket_for_an_endpoint_of_others(ann, cid, slug):
    record(ann)
    response = ann.get(f"/traces/usage/1/replay/ticket?endpoint={slug}")
    assert response.status_code == 404
    assert "ticket" not in response.text


def test_strangers_and_keys_get_no_ticket(ann, stranger):
    record(ann)
    given: list[dict[str, str]] = [{}, ann.bearer]
    for headers in given:
        for part in ("", "/ticket?endpoint=team-a", "/entry?run=replay-1"):
            response = stranger.get(f"/traces/usage/1/replay{part}", headers=headers)
            assert response.status_code in (303, 401)


def test_a_member_who_was_removed_gets_no_ticket(ann, bob, control, settings):
    address = "/traces/usage/1/replay/ticket?endpoint=team-a"
    assert bob.get(address).status_code == 200
    owner = Management.make(control, settings).find_caller("ann@example.org")
    Management.make(control, settings).remove_member(owner, bob.user_id)
    assert bob.get(address).status_code in (303, 404)


# -- the new entry -----------------------------------------------------------------------------------


def test_the_new_entry_is_found_by_its_run(ann):
    record(ann)
    address = "/traces/usage/1/replay/entry?run=replay-abc"
    assert ann.get(address).json() == {"id": None}
    record(ann, run_id="replay-abc")
    found = ann.get(address).json()
    assert (found["id"], found["cost"], found["outcome"]) == (2, "$0.0125", "complete")


def test_an_entry_of_another_organisation_is_not_found(ann, cid):
    record(ann, run_id="replay-abc")
    cid.record()
    assert cid.get("/traces/usage/1/replay/entry?run=replay-abc").json() == {"id": None}
    assert "What is in it?" not in cid.get("/traces/usage/1/replay").text


@pytest.mark.parametrize("run", ["", "abc", "replay-/", "replay-%00", "replay-" + "x" * 80])
def test_only_runs_of_this_page_are_looked_up(ann, run):
    ann.record(run_id="abc")
    assert ann.get(f"/traces/usage/1/replay/entry?run={run}").status_code == 400


def test_a_call_that_is_not_there_has_no_page(ann):
    assert ann.get("/traces/usage/1/replay").status_code == 404
    record(ann)
    assert ann.get("/traces/usage/9/replay").status_code == 404


# -- checks ------------------------------------------------------------------------------------------


def test_a_request_is_checked_by_the_service(ann):
    record(ann)
    after = json.dumps(REQUEST | {"max_tokens": "many"}).encode()
    response = ann.browser.post("/traces/usage/1/replay/check", content=after, headers=HERE | JSON)
    assert response.json() == {
        "problems": ["“max_tokens” must be a whole number."],
        "changes": ["max_tokens changed"],
    }


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 403),
        (JSON | {"origin": "https://evil.example"}, 403),
        (JSON | HERE | {"sec-fetch-site": "cross-site"}, 403),
        (HERE | {"content-type": "text/plain"}, 415),
        (HERE | {"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_other_pages_cannot_have_a_request_checked(ann, headers, status):
    record(ann)
    response = ann.browser.post(
        "/traces/usage/1/replay/check", content=as_bytes(REQUEST), headers=headers
    )
    assert response.status_code == status
    assert "changes" not in response.text


def test_what_is_too_large_is_not_checked(ann):
    record(ann)
    body = b" " * (MAX_EDITED_BYTES + 1)
    response = ann.browser.post("/traces/usage/1/replay/check", content=body, headers=HERE | JSON)
    assert response.status_code == 413


def test_each_address_has_its_method(ann):
    record(ann)
    assert ann.get("/traces/usage/1/replay/check").status_code == 405
    for path in ("replay", "replay/ticket", "replay/entry"):
        response = ann.browser.post(f"/traces/usage/1/{path}", content=b"{}", headers=HERE | JSON)
        assert response.status_code == 405
    assert ann.browser.post("/calls/1", headers=HERE).status_code == 405


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": 5}, "“model”"),
        ({"model": ""}, "“model”"),
        ({"max_tokens": None}, "“max_tokens”"),
        ({"max_tokens": True}, "“max_tokens”"),
        ({"messages": []}, "“messages”"),
        ({"messages": "hi"}, "“messages”"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "user"}]}, "Message 2"),
        ({"stream": 1}, "“stream”"),
    ],
)
def test_what_upstream_will_refuse_is_said_before(changes, problem):
    (found,) = check_request(as_bytes(REQUEST | changes), None).problems
    assert problem in found


def test_a_good_request_has_no_problems_and_names_what_changed():
    more = REQUEST["messages"] + [{"role": "assistant", "content": "42"}]
    found = check_request(as_bytes(REQUEST | {"messages": more, "top_p": 1}), as_bytes(REQUEST))
    assert found.problems == ()
    assert found.changes == ("top_p added", "1 message added")
    assert check_request(b"[1]", as_bytes(REQUEST)).problems == (
        "The request is not a JSON object.",
    )


# -- layout ------------------------------------------------------------------------------------------


@settings(max_examples=20)  # each is made of a hundred choices
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from([None, 1]),
)
def test_layout_changes_white_space_alone(value, indent):
    written = json.dumps(value, indent=indent)
    laid_out = lay_out(written)
    assert json.loads(laid_out) == value
    assert json.dumps(json.loads(laid_out)) == json.dumps(value)


def test_numbers_and_escapes_stay_as_they_were_written():
    text = '{"b":1.0,"a":[1e2,12345678901234567890,"\\u00e9\\"}"],"b":{},"c":[]}'
    assert lay_out(text) == (
        '{\n  "b": 1.0,\n  "a": [\n    1e2,\n    12345678901234567890,\n    "\\u00e9\\"}"\n  ],\n'
        '  "b": {},\n  "c": []\n}'
    )
