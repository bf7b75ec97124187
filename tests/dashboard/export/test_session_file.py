"""A session as one HTML file: what is in it, what is not, and for whom."""

import base64
import json
import re

from dashboard.export import pages
from dashboard.visitors import Visitors
from store.control.database import ControlDatabase
from store.control.sign_in import SignIn
from tests.dashboard.pages import Page

MARKUP = '<script>alert(1)</script><img src="https://evil.example/x.png">'
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()
WORDS = "These words were said"


def call(minute, words, *blocks, session="s", **changes):
    messages = [{"role": "user", "content": [{"type": "text", "text": words}, *blocks]}]
    response = {
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [{"type": "text", "text": f"Response to {words}"}],
        "usage": {"output_tokens": 1},
    }
    return {
        "session_id": session,
        "created_at": f"2026-03-01T10:{minute:02}:00.000Z",
        "title_text": words[:80],
        "streamed": False,
        "request_body": json.dumps({"model": "claude-x", "messages": messages}).encode(),
        "response_body": json.dumps(response).encode(),
    } | changes


def test_the_file_says_at_its_top_who_exported_what_and_when(ann):
    ann.record(call(1, WORDS), call(2, "More of it"), call(3, "Elsewhere", session="other"))
    answer = ann.get("/sessions/s/export.html?bodies=yes")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="session-s.html"'
    notice = Page(answer.text).find("p", "notice")[0].text
    for words in (
        "ann@example.org",
        "2 calls of session s",
        "2026-03-01 10:01:00",
        "text of messages",
    ):
        assert words in notice
    assert re.search(r"Exported 20\d\d-\d\d-\d\d", notice)
    assert "Elsewhere" not in answer.text
    for words in (WORDS, f"Response to {WORDS}", "Response to More of it"):
        assert words in answer.text


def test_without_bodies_it_has_figures_and_nothing_that_was_said(ann):
    ann.record(call(1, WORDS, cost_cents=None), call(2, WORDS))
    for address in ("/sessions/s/export.html", "/sessions/s/export.html?bodies=no"):
        page = ann.get(address).text
        assert "no text of requests or responses" in page
        assert WORDS not in page
        assert "claude" in page
        assert len(Page(page).find("li", "line")) == 2
    assert ann.get("/sessions/s/export.html?bodies=maybe").status_code == 400


def test_it_needs_nothing_else_and_runs_nothing(ann):
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    ann.record(call(1, f"Look: {MARKUP} ![x](https://evil.example/y.png)", image))
    page = Page(ann.get("/sessions/s/export.html?bodies=yes").text)
    assert [each for each in page.elements if each.tag in ("script", "link", "iframe")] == []
    assert [
        each for each in page.elements if any(n.startswith("on") for n in each.attributes)
    ] == []
    sources = [each.attributes["src"] for each in page.elements if "src" in each.attributes]
    assert sources == [f"data:image/png;base64,{PIXEL}"]
    for link in page.find("a"):
        assert link.attributes["href"].startswith(("#", "https://", "data:image/png"))
    (policy,) = [
        each.attributes["content"] for each in page.find("meta") if "http-equiv" in each.attributes
    ]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    styles = page.find("style")[0].text
    assert ".line {" in styles
    assert "url(" not in styles
    assert "@import" not in styles


def test_too_large_images_are_named_and_left_out(ann, monkeypatch):
    monkeypatch.setattr("dashboard.export.words.MAX_PICTURE_BYTES", 10)
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    ann.record(call(1, "Look", image))
    page = ann.get("/sessions/s/export.html?bodies=yes").text
    assert "Not in this file" in page
    assert PIXEL not in page


def test_a_call_without_bodies_is_in_it_with_its_figures(ann):
    ann.record(call(1, WORDS, request_body=None, response_body=None))
    page = ann.get("/sessions/s/export.html?bodies=yes").text
    assert "No request body was kept." in page
    assert "No response body was kept." in page


def test_an_id_with_slashes_is_exported_too(ann):
    ann.record(call(1, WORDS, session="a/b c"))
    answer = ann.get("/sessions/a%2Fb%20c/export.html?bodies=yes")
    assert WORDS in answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="session-a-b-c.html"'
    assert (
        'href="/sessions/a%2Fb%20c/export.html?bodies=yes"' in ann.get("/sessions/a%2Fb%20c").text
    )


def test_it_is_cut_when_its_caller_may_no_longer_read(ann, settings, monkeypatch, caplog):
    ann.record(*(call(n, f"Words {n}") for n in range(20)))
    checks = 0
    find = Visitors.require_caller

    async def leave_later(visitors, request):
        nonlocal checks
        checks += 1
        if checks == 3:
            with ControlDatabase(settings.control_path) as control:  # in the thread of the service
                SignIn(control).sign_out(ann.session)
        return await find(visitors, request)

    monkeypatch.setattr(Visitors, "require_caller", leave_later)
    page = ann.get("/sessions/s/export.html?bodies=yes").text
    assert checks == 3
    assert "Response to Words 1" in page
    assert "Response to Words 5" not in page
    assert "</html>" not in page
    (said,) = [each for each in caplog.records if each.name == "dashboard.export.pages"]
    assert said.getMessage().endswith("its caller may no longer read it")
    assert "Traceback" not in caplog.text


def test_there_are_only_so_many_exports_at_once(ann, monkeypatch):
    ann.record(call(1, WORDS))
    monkeypatch.setattr(pages, "MAX_EXPORTS", 0)
    assert ann.get("/sessions/s/export.html").status_code == 429
