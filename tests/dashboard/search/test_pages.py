"""The page of the search and its JSON."""

import json
import re
import sqlite3
import time
from dataclasses import replace

from hypothesis import HealthCheck, given, settings as examples, strategies as st
from starlette.testclient import TestClient

from manage.server import make_app
from store.traces.calls.predecessors import write_previous
from store.traces.database import TraceDatabase
from store.traces.search import filtering, later_calls, reader
from store.traces.search.indexer import Indexer
from tests.dashboard.people import BASE_URL, COOKIE
from tests.store.traces.search.conversation import (
    assistant,
    request,
    response,
    stream,
    tool_result,
    user,
)

TOOLS = [{"name": "Bash", "description": "Runs numbat commands"}]


def index(person):
    with TraceDatabase(person.path) as traces:
        assert not Indexer(traces.connection, time.monotonic).run(60)


def say(person, *messages, answer=None, **changes):
    """Record a call and index it; the id of the call."""
    body = request(*messages, system="Be a kind koala", tools=TOOLS)
    usage_id = person.record(
        **{"request_body": body, "response_body": answer, "session_id": "s"} | changes
    )
    index(person)
    return usage_id


def find(person, words, **arguments):
    answer = person.browser.get("/search.json", params={"q": words, **arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def talk(person):
    """A session of four calls."""
    said = [user("where is the zebrafinch")]
    say(person, *said, answer=stream("in the quok", "kadile nest"), title_text="Find the finch")
    said += [assistant("in the quokkadile nest"), tool_result(1, "a wombat\nfound")]
    for number in range(3):
        say(person, *said, user(f"go on {number}"), answer=response(f"reply {number}"))


def test_a_hit_has_its_first_call_who_said_it_and_the_later_calls(ann):
    talk(ann)
    for words, role, first, others in (
        ("zebrafinch", "user", 1, 3),
        ('"quokkadile nest"', "assistant", 1, 3),
        ('"wombat found"', "tool_result", 2, 2),
        ("koala", "system", 1, 3),
        ("numbat", "tool", 1, 3),
        ('"reply 2"', "assistant", 4, 0),
    ):
        (hit,) = find(ann, words)
        assert (hit["role"], hit["id"], hit["other_calls"]) == (role, first, others), words
        assert hit["other_calls_capped"] is False
        assert words.strip('"').split()[0] in hit["snippet"]
        assert [hit["snippet"][start:end] for start, end in hit["marks"]]
    with TraceDatabase(ann.path) as traces:
        (entry_id,) = traces.connection.execute(
            "select entry_id from usage where id = 1"
        ).fetchone()
    assert find(ann, "zebrafinch")[0]["entry_id"] == entry_id


def test_the_page_shows_what_was_found(ann):
    talk(ann)
    page = ann.get("/search?q=zebrafinch").text
    assert "<mark>zebrafinch</mark>" in page
    assert 'href="/calls/1"' in page
    assert 'href="/sessions/s"><bdi>Find the finch</bdi></a> · also in 3 later calls' in page
    assert find(ann, "zebrafinch")[0]["session_title"] == "Find the finch"


def test_every_hit_is_on_one_page_newest_first(ann):
    ann.record(*({"request_body": request(user(f"wombat number{n}"))} for n in range(12)))
    ann.record(*({"response_body": response(f"wombat answer{n}")} for n in range(13)))
    index(ann)
    more: dict[str, str] = {}
    seen, sizes = [], []
    while True:
        page = ann.browser.get("/search.json", params={"q": "wombat", "limit": 10, **more}).json()
        seen += [hit["id"] for hit in page["items"]]
        sizes.append(len(page["items"]))
        assert page["hasMore"] == (page["nextCursor"] is not None)
        if not page["hasMore"]:
            break
        more = {"cursor": page["nextCursor"]}
    assert seen == list(range(25, 0, -1))
    assert sizes == [10, 10, 5]
    first = ann.get("/search?q=wombat").text
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    assert "wombat" in ann.get(older.replace("&amp;", "&")).text


def test_filters_leave_out_other_calls(ann):
    for number, changes in enumerate(
        (
            {"slug": "one", "model": "claude-opus-5"},
            {"slug": "two", "model": "claude-haiku-4-5", "created_at": "2026-05-01T10:00:00.000Z"},
        )
    ):
        say(ann, user(f"wombat{number} wombat"), session_id=f"s{number}", **changes)
    for arguments, expected in (
        ({}, [2, 1]),
        ({"endpoint": "one"}, [1]),
        ({"model": "claude-haiku*"}, [2]),
        ({"session": "s0"}, [1]),
        ({"role": "user"}, [2, 1]),
        ({"role": "assistant"}, []),
        ({"since": "2026-05-01"}, [2]),
        ({"until": "2026-04-30"}, [1]),
        ({"until": "2026-05-01"}, [2, 1]),
        ({"since": "2026-05-01T10:00:01Z"}, []),
    ):
        assert [hit["id"] for hit in find(ann, "wombat", **arguments)] == expected, arguments


def test_a_text_that_is_sent_again_is_found_in_each_session_and_on_each_day(ann):
    for number, day in enumerate(("2026-05-01", "2026-05-03", "2026-05-03")):
        at = f"{day}T10:00:00.000Z"
        said = user("where is the zebrafinch")
        say(ann, said, session_id=f"s{number}", created_at=at, answer=response("in its quokka"))
        more = [said, assistant("in its quokka"), user(f"go on {number}")]
        say(ann, *more, session_id=f"s{number}", created_at=at, model="claude-haiku-4-5")
    for words in ("zebrafinch", '"be a kind koala"'):
        for arguments, expected in (
            ({}, [1]),
            ({"since": "2026-05-02"}, [3]),
            ({"until": "2026-05-02"}, [1]),
            ({"session": "s2"}, [5]),
            ({"session": "s2", "until": "2026-05-02"}, []),
            ({"model": "claude-haiku*", "since": "2026-05-02"}, [4]),
            ({"endpoint": "nope"}, []),
        ):
            assert [hit["id"] for hit in find(ann, words, **arguments)] == expected, arguments
    (hit,) = find(ann, "zebrafinch", session="s2")
    assert (hit["session_id"], hit["other_calls"]) == ("s2", 1)
    # What was answered is found where it comes back, too.
    assert 4 in [hit["id"] for hit in find(ann, "quokka", model="claude-haiku*", session="s1")]


def test_of_the_calls_that_filters_leave_the_newest_are_looked_through(ann, monkeypatch):
    for number in range(4):
        say(ann, user("a zebrafinch"), session_id=f"s{number}", slug="busy" if number else "first")
    monkeypatch.setattr(filtering, "MAX_CALLS", 2)
    assert [hit["id"] for hit in find(ann, "zebrafinch", endpoint="busy")] == [3]


def test_ids_lead_straight_to_their_call_or_session(ann):
    ann.record(upstream_request_id="req_011CSHoEeqs5C35K", session_id="b3e0-4f")
    with TraceDatabase(ann.path) as traces:
        (entry_id,) = traces.connection.execute("select entry_id from usage").fetchone()
    for text, location in (
        (entry_id, "/calls/1"),
        ("req_011CSHoEeqs5C35K", "/calls/1"),
        ("b3e0-4f", "/sessions/b3e0-4f"),
    ):
        answer = ann.browser.get("/search", params={"q": f" {text} "})
        assert (answer.status_code, answer.headers["location"]) == (303, location)
        assert ann.browser.get("/search.json", params={"q": text}).json()["location"] == location
    assert ann.get("/search?q=req_gone").status_code == 200


WRONG = [
    "limit=0",
    "limit=x",
    f"limit=000000001{'9' * 5000}",
    "cursor=x",
    "cursor=WzFd",
    "role=nobody",
    "since=yesterday",
    "until=2026-13-40",
    "q=" + "x" * 1001,
    "q=" + "+".join(f"x{number}" for number in range(65)),
]


def test_arguments_that_are_wrong_are_refused(ann, subtests):
    for query in WRONG:
        with subtests.test(query[:40]):
            answer = ann.get(f"/search.json?{query}")
            assert answer.status_code == 400
            assert answer.json()["error"]["message"]


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(text=st.text(max_size=50) | st.text(alphabet='"*()^:-{}a \0AND', max_size=40))
def test_any_text_is_a_query(ann, text):
    if not ann.path.exists():
        talk(ann)
    find(ann, text)


def test_before_the_first_call_nothing_is_found(ann):
    assert find(ann, "wombat") == []
    assert "Nothing that was said" in ann.get("/search?q=wombat").text
    assert ann.get("/search").status_code == 200
    assert "no word" in ann.get("/search?q=%2A").text


def test_markup_and_hidden_characters_in_texts_are_shown_as_text(ann):
    say(ann, user("<script>alert(1)</script> \u202e wombat <b>bold</b>"))
    page = ann.get("/search?q=wombat").text
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "\u202e" not in page
    page = ann.get("/search?q=%3Cscript%3Ewombat%22%3E").text
    assert "<script>wombat" not in page


def test_nobody_finds_the_texts_of_another_organisation(ann, cid):
    talk(ann)
    ann.record(upstream_request_id="req_ann", session_id="ann-1")
    say(cid, user("own numbat"))
    for words in ("zebrafinch", "quokkadile", "req_ann", "ann-1"):
        assert find(cid, words) == []
        page = cid.get(f"/search?q={words}")
        assert page.status_code == 200
        assert "<mark>" not in page.text
    with TraceDatabase(ann.path) as traces:
        (entry_id,) = traces.connection.execute("select entry_id from usage limit 1").fetchone()
    assert cid.get(f"/search?q={entry_id}").status_code == 200


def test_a_page_says_how_far_back_it_searched(ann):
    talk(ann)
    with TraceDatabase(ann.path) as traces:
        traces.connection.execute("insert into search_gaps (to_id, from_id) values (2, 1)")
        (at,) = traces.connection.execute("select created_at from usage where id = 3").fetchone()
    page = ann.get("/search?q=reply").text
    assert "Older calls are still being indexed" in page
    assert at in page
    found = ann.get("/search.json?q=reply").json()
    assert (found["searched_back_to"], found["calls_not_searched"]) == (at, 2)


def test_while_search_is_off_the_page_says_how_to_turn_it_on(ann, settings):
    talk(ann)
    with TestClient(make_app(replace(settings, search_index=False)), base_url=BASE_URL) as browser:
        browser.cookies.set(COOKIE, ann.session)
        page = browser.get("/search?q=zebrafinch").text
        assert "TAXIMETER_SEARCH_INDEX=on" in page
        assert "<mark>" not in page
        found = browser.get("/search.json?q=zebrafinch").json()
    assert (found["items"], found["indexed"]) == ([], False)


def test_a_search_that_takes_long_goes_on_on_the_next_page(ann, monkeypatch):
    ann.record(*({"response_body": response(f"wombat {n}")} for n in range(5)))
    index(ann)
    monkeypatch.setattr(reader, "SEARCH_S", 0)
    page = ann.get("/search?q=wombat").text
    assert "More may match" in page
    assert 'rel="next"' in page


def test_later_calls_are_counted_up_to_a_bound(ann, monkeypatch):
    monkeypatch.setattr(later_calls, "MAX_COUNT", 2)
    talk(ann)
    (hit,) = find(ann, "zebrafinch")
    assert (hit["other_calls"], hit["other_calls_capped"]) == (2, True)
    assert "also in more than 2 later calls" in ann.get("/search?q=zebrafinch").text


def test_calls_of_a_message_thread_have_what_those_before_them_sent_and_were_answered(ann):
    def take_turn(number, *messages, **changes):
        say(
            ann,
            *messages,
            answer=response(f"reply{number}x"),
            message_id=f"msg_{number}",
            thread="continue" if number > 1 else "create",
            thread_previous_id=f"msg_{number - 1}" if number > 1 else None,
            **changes,
        )

    take_turn(1, user("where is the zebrafinch"))
    take_turn(2, tool_result(1, "a wombat"))
    take_turn(3)
    say(ann, user("a side call"), answer=response("done"))
    take_turn(4, user("thanks"))
    with TraceDatabase(ann.path) as traces:
        for usage_id, previous_id in ((2, 1), (3, 2), (5, 3)):
            write_previous(traces.connection, usage_id, previous_id)
    for words, first, others in (
        ("zebrafinch", 1, 3),
        ("reply1x", 1, 3),
        ("wombat", 2, 2),
        ("reply3x", 3, 1),
        ("thanks", 5, 0),
        ("reply4x", 5, 0),
    ):
        (hit,) = find(ann, words)
        assert (hit["id"], hit["other_calls"]) == (first, others), words


def test_every_page_has_the_search_box(ann):
    ann.record()
    for path in ("/", "/sessions", "/settings/data", "/traces/usage", "/calls/1", "/search"):
        page = ann.get(path).text
        assert len(re.findall(r'<form class="find" method="get" action="/search"', page)) == 1, path
        assert '<label class="vh" for="search-box">' in page
        assert "/static/search.js" in page
    assert json.loads(ann.get("/search.json").text)["items"] == []


def test_notes_are_found_without_filters(ann):
    ann.record(session_id="s1", title_text="Fix the tracker")
    with sqlite3.connect(ann.path) as db:
        db.execute("insert into labels (session_id, label, at) values ('s1', 'tracker bug', '')")
        rows = [("s1", None, "The tracker was restarted."), (None, 1, "<i>tracker</i>")]
        db.executemany(
            "insert into notes (session_id, usage_id, text, at) values (?, ?, ?, '2026-01-02')",
            rows,
        )
    db.close()
    page = ann.get("/search?q=tracker").text
    assert "The tracker was restarted." in page
    assert "&lt;i&gt;tracker" in page
    assert '<a href="/sessions/s1"><bdi>Fix the tracker</bdi></a>' in page
    assert 'href="/calls?period=all&amp;label=tracker%20bug"' in page
    assert "Nothing found" not in page
    assert ann.get("/search.json?q=bug").json()["labels"] == ["tracker bug"]
    assert ann.get("/search.json?q=bug&endpoint=default").json()["labels"] == []
    found = ann.get("/search.json?q=restarted").json()
    assert found["items"] == []
    assert found["notes"] == [
        {
            "session_id": "s1",
            "session_title": "Fix the tracker",
            "id": None,
            "text": "The tracker was restarted.",
            "by": None,
            "at": "2026-01-02",
        }
    ]
    assert ann.get("/search.json?q=restarted&role=user").json()["notes"] == []
    assert ann.get("/search.json").json()["notes"] == []
