"""The page of credentials in calls, which only owners have."""

import re
from datetime import timedelta

from extensions.credentials_in_calls.findings import Finding, FoundSecrets, Progress
from runtime import clock
from tests.dashboard.pages import words_of

EVIL = "<script>alert(1)</script>\u202e"


def find(person, *usage_ids, **changes):
    fields = {
        "digest": b"1",
        "kind": "AWS access key",
        "place": "tool_result",
        "shown": "AKIAQ2…",
        "created_at": "2026-03-01T10:00:00.000Z",
    }
    found = FoundSecrets(person.path)
    found.add(Progress(9, 9), [Finding(usage_id=each, **(fields | changes)) for each in usage_ids])
    found.close()


def test_owners_see_what_was_found_redacted(ann):
    ann.record({}, {}, {})
    find(ann, 1, 3)
    page = ann.get("/settings/security").text
    assert "AWS access key" in page
    assert "AKIAQ2…" in page
    assert "tool result" in page
    assert '<td class="num hide-s">2<' in page
    assert 'href="/calls/3"' in page
    assert ann.get("/secrets").headers["location"] == "/settings/security#credentials"


def test_before_anything_was_found_the_page_says_so(ann):
    assert "No credential has been found." in ann.get("/settings/security").text
    ann.record()
    assert "No credential has been found." in ann.get("/settings/security").text


def test_members_and_strangers_do_not_see_it(ann, bob, cid, stranger):
    ann.record()
    find(ann, 1)
    assert bob.get("/secrets").status_code == 404
    assert "AKIAQ2" not in bob.get("/secrets").text
    for person in (bob, cid):
        assert "AKIAQ2" not in person.get("/settings/security").text
    assert stranger.get("/secrets").status_code == 303
    assert stranger.get("/secrets", headers=ann.bearer).status_code in (303, 401)


def test_the_page_of_a_call_tells_owners_alone(ann, bob):
    ann.record({}, {})
    find(ann, 1)
    assert "A credential was found in what this call added." in ann.get("/calls/1").text
    assert "credential was found" not in ann.get("/calls/2").text
    assert "credential was found" not in bob.get("/calls/1").text


def test_home_and_the_session_tell_owners_alone(ann, bob):
    ann.record({}, {}, session_id="s")
    find(ann, 2, created_at=clock.format_ms(clock.now()))
    told = words_of(ann.get("/").text)
    assert "A credential was found in call 2: revoke it. Credentials in calls" in told
    session = ann.get("/sessions/s").text
    assert "1 warning" in words_of(session)
    (event,) = re.findall(r'<li class="event[^>]* id="warning-2".*?</li>', session, re.S)
    assert words_of(event) == "A credential was found in what this call added. Credentials in calls"
    for page in ("/", "/sessions/s"):
        assert "credential was found" not in bob.get(page).text
    file = ann.get("/sessions/s/export.html?bodies=no").text
    assert "credential was found" not in file, "a file is for others to read"


def test_home_tells_of_the_last_week_alone(ann):
    ann.record({})
    find(ann, 1, created_at=clock.format_ms(clock.now() - timedelta(days=8)))
    assert "credential was found" not in ann.get("/").text


def test_members_cannot_query_what_was_found(ann, bob):
    ann.record()
    find(ann, 1)
    for sql in ("select * from found", "attach 'secrets.db' as s"):
        response = bob.get(f"/traces.json?sql={sql}")
        assert response.status_code == 400
        assert "AKIAQ2" not in response.text


def test_a_call_that_retention_removed_is_not_listed(ann):
    ann.record()
    find(ann, 7)
    assert "AKIAQ2" not in ann.get("/settings/security").text


def test_markup_stays_text(ann):
    ann.record()
    find(ann, 1, kind=EVIL, shown=EVIL, place=EVIL)
    page = ann.get("/settings/security").text
    assert "<script>alert" not in page
    assert "\u202e" not in page
