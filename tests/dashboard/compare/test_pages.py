"""The page that compares two calls."""

import copy
import json
import re
from decimal import Decimal
from typing import Any

import pytest

from metering.components import CACHE_WRITE_1H
from tests.dashboard.pages import Page, words_of
from tests.store.traffic import make_item

EVIL = "</div></del><script>alert(1)</script>\u202e<img src=x onerror=alert(1)>"


def text(words, **more):
    return {"type": "text", "text": words} | more


def turn(role, *blocks):
    return {"role": role, "content": list(blocks)}


MARKER = {"cache_control": {"type": "ephemeral"}}
REQUEST: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 100,
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "system": [text("You write British English.")],
    "tools": [
        {"name": "Bash", "description": "Runs a command.", "input_schema": {"type": "object"}},
        {"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}},
    ],
    "messages": [
        turn("user", text("Why does the test fail?")),
        turn(
            "assistant", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"a": 1, "b": 2}}
        ),
        turn("user", {"type": "tool_result", "tool_use_id": "t1", "content": "41 passed"}),
        turn("assistant", text("The limit is wrong.")),
        turn("user", text("Mend it.")),
    ],
}
ANSWER = {"type": "message", "content": [text("Mended.")], "stop_reason": "end_turn"}


def as_bytes(document):
    return json.dumps(document).encode()


class Compared:
    """The page of two requests that were recorded one after the other."""

    def __init__(self, ann, before, after, **changes):
        number = ann.record(
            {"request_body": as_bytes(before)},
            {"request_body": as_bytes(after)},
            response_body=as_bytes(ANSWER),
            **changes,
        )
        response = ann.get(f"/traces/usage/{number - 1}/compare/{number}")
        assert response.status_code == 200
        self.html = response.text

    def summary(self, title):
        """Return what the line on top says of a part."""
        found = re.search(rf"<a href=\"#\w+\">{title} <span[^>]*>(.*?)</span>", self.html, re.S)
        assert found is not None
        return words_of(found[1])

    def differences(self):
        """Each difference as its kind and its words, without stretches that are equal."""
        items = re.findall(
            r'<li class="difference (\w+)">(.*?)</li>\n(?=<li class="diff|</ol>)', self.html, re.S
        )
        return [(kind, words_of(item)) for kind, item in items if kind != "equal"]

    def folded(self):
        return [
            words_of(each)
            for each in re.findall(r"<summary>(.*?)</summary>", self.html.partition("<main")[2])
        ]

    def changes(self):
        """The words that were taken away and those that came."""
        return re.findall(r"<del>(.*?)</del>", self.html), re.findall(
            r"<ins>(.*?)</ins>", self.html
        )

    def settings(self):
        section = self.html.partition('id="settings"')[2].partition("</section>")[0]
        rows = re.findall(r"<tr class=\"differs\">(.*?)</tr>", section, re.S)
        return [
            tuple(words_of(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row))
            for row in rows
        ]


def changed(**changes):
    return copy.deepcopy(REQUEST) | changes


def test_equal_calls_are_told_to_be_equal(ann):
    page = Compared(ann, REQUEST, REQUEST)
    assert page.differences() == []
    assert "The prompts of both calls are equal." in page.html
    assert page.folded()[:3] == ["2 tools equal", "1 block equal", "5 messages equal"]
    assert page.summary("Messages") == "5 equal"


def test_a_word_that_changed_is_named(ann):
    after = changed(system=[text("You write American English.")])
    page = Compared(ann, REQUEST, after)
    assert page.changes() == (["British"], ["American"])
    assert page.summary("System prompt") == "1 changed"
    assert "first difference is <bdi>System block 1</bdi>" in page.html


def test_a_system_prompt_is_the_same_as_a_text_and_as_a_block(ann):
    page = Compared(ann, REQUEST, changed(system="You write British English."))
    assert page.differences() == []


def test_messages_that_follow_are_added_and_the_history_is_folded(ann):
    more = [turn("assistant", text("It is mended.")), turn("user", text("Thank you."))]
    page = Compared(ann, REQUEST, changed(messages=REQUEST["messages"] + more))
    assert [kind for kind, _ in page.differences()] == ["added", "added"]
    assert page.changes() == ([], ["It is mended.", "Thank you."])
    assert "5 messages equal" in page.folded()
    assert page.summary("Messages") == "2 added, 5 equal"


def test_a_message_that_was_cut_out_is_removed(ann):
    messages = [*REQUEST["messages"][:1], *REQUEST["messages"][3:]]
    page = Compared(ann, REQUEST, changed(messages=messages))
    assert page.differences() == [
        ("removed", 'removed Message 2, assistant Tool call Bash { "a": 1, "b": 2 }'),
        ("removed", "removed Message 3, user Tool result 41 passed"),
    ]


def test_only_the_block_of_a_message_that_changed_is_compared(ann):
    before, after = (
        changed(messages=[turn("user", text("One."), text(f"Two {word} three."), text("Four."))])
        for word in ("and", "or")
    )
    page = Compared(ann, before, after)
    ((kind, said),) = page.differences()
    assert (kind, said) == (
        "changed",
        "changed Message 1, user 1 block equal Text Two and or three. 1 block equal",
    )


def test_an_edited_message_is_found_beside_one_that_was_added(ann):
    extra = turn("user", text("Something else that nobody said before, at length."))
    edited = turn("user", text("Why does that test fail?"))
    page = Compared(
        ann,
        changed(messages=[turn("user", text("Why does the test fail?"))]),
        changed(messages=[extra, edited]),
    )
    assert [kind for kind, _ in page.differences()] == ["added", "changed"]
    assert page.changes()[0] == ["the"]


def test_tools_are_added_removed_changed_and_moved(ann):
    bash, read = REQUEST["tools"]
    write = {"name": "Write", "description": "Writes a file.", "input_schema": {}}
    glob = {"name": "Glob", "description": "Finds files.", "input_schema": {}}
    page = Compared(
        ann,
        changed(tools=[bash, read, write]),
        changed(tools=[glob, read | {"description": "Reads one file."}, bash]),
    )
    found = [said.partition(" {")[0] for _, said in page.differences()]
    assert "1 tool equal" in page.folded(), "Bash, beside which the others moved"
    assert sorted(found) == [
        "added Tool Glob",
        "changed Tool Read",
        "removed Tool Write",
    ]


def test_a_tool_that_moved_is_named(ann):
    first, *others = (REQUEST["tools"][0] | {"name": name} for name in "abcd")
    page = Compared(ann, changed(tools=[first, *others]), changed(tools=[*others, first]))
    ((kind, said),) = page.differences()
    assert kind == "moved"
    assert said.startswith("moved Tool a It stands elsewhere among the others.")


def test_a_deferred_tool_is_compared_too(ann):
    deferred = [each | {"defer_loading": True} for each in REQUEST["tools"]]
    page = Compared(ann, changed(tools=deferred[:1]), changed(tools=deferred))
    ((kind, said),) = page.differences()
    assert (kind, said.partition(" {")[0]) == ("added", "added Tool Read, deferred")


def test_the_order_of_keys_is_named_apart(ann):
    after = changed()
    after["messages"][1]["content"][0]["input"] = {"b": 2, "a": 1}
    page = Compared(ann, REQUEST, after)
    ((kind, said),) = page.differences()
    assert kind == "reordered"
    assert said.startswith("keys in another order Message 2, assistant")
    assert page.summary("Messages") == "1 with keys in another order, 4 equal"


def test_a_cache_breakpoint_that_moved_is_named_apart(ann):
    before, after = changed(), changed()
    before["messages"][2]["content"][0] |= MARKER
    after["messages"][4]["content"][0] |= {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    page = Compared(ann, before, after)
    assert page.differences() == []
    assert page.summary("Cache breakpoints") == "changed"
    assert "message 3, block 1 (5m)" in page.html
    assert "message 5, block 1 (1h)" in page.html


def test_the_settings_of_a_message_that_changed_are_named(ann):
    before, after = changed(), changed()
    before["messages"][2]["output_config"] = {"effort": "low"}
    after["messages"][2]["output_config"] = {"effort": "high"}
    page = Compared(ann, before, after)
    ((kind, said),) = page.differences()
    assert kind == "changed"
    assert "Message 3" in said
    assert "Settings" in said


def test_settings_that_differ_are_listed_with_both_values(ann):
    after = changed(max_tokens=200, tool_choice={"type": "any"})
    after["thinking"]["budget_tokens"] = 4000
    ann.record({"request_body": as_bytes(REQUEST), "betas": "one,two"})
    ann.record({"request_body": as_bytes(after), "betas": "two, three"})
    page = Compared.__new__(Compared)
    page.html = ann.get("/traces/usage/1/compare/2").text
    assert page.settings() == [
        ("Beta one", "on", "—"),
        ("Beta three", "—", "on"),
        ("max_tokens", "100", "200"),
        ("thinking.budget_tokens", "2000", "4000"),
        ("tool_choice.type", "—", "any"),
    ]


def test_tokens_of_mcp_servers_are_not_shown(ann):
    server = {"type": "url", "name": "wiki", "url": "https://w.example"}
    before, after = (
        changed(mcp_servers=[server | {"authorization_token": token}])
        for token in ("s3cr3t", "0th3r")
    )
    page = Compared(ann, before, after)
    assert "s3cr3t" not in page.html
    assert "0th3r" not in page.html
    assert page.settings() == [
        ("mcp_servers.1.authorization_token", "(not shown)", "(not shown) (differs)")
    ]


def test_bills_and_responses_are_side_by_side(ann):
    ann.record(
        {
            "cost_cents": Decimal("1.5"),
            "cost_items": (make_item(cents=Decimal("1.5"), quantity=10),),
            "response_body": as_bytes(ANSWER),
        },
        {
            "cost_cents": Decimal("4.25"),
            "cost_items": (
                make_item(cents=Decimal(1), quantity=5),
                make_item(cents=Decimal(1), quantity=7, pass_index=1),
                make_item(component=CACHE_WRITE_1H, cents=Decimal("2.25"), quantity=30),
            ),
            "response_body": as_bytes(ANSWER | {"content": [text("Not mended.")]}),
        },
    )
    page = words_of(ann.get("/traces/usage/1/compare/2").text)
    assert "Uncached input 10 $0.0150 12 $0.0200 +$0.0050" in page
    assert "Cache writes, 1 hour 0 $0.0000 30 $0.0225 +$0.0225" in page
    assert "Total $0.0150 $0.0425 +$0.0275" in page
    assert page.index("Mended.") < page.index("Not mended.")


def test_a_cost_that_is_not_known_is_not_compared(ann):
    ann.record({"cost_cents": None}, {})
    assert "Total — $0.0125 —" in words_of(ann.get("/traces/usage/1/compare/2").text)


def test_bodies_that_are_missing_are_named(ann):
    ann.record({}, {"request_body": b"[1]", "response_body": b"\x00\xff"})
    page = words_of(ann.get("/traces/usage/1/compare/2").text)
    assert "The request of call 1 was not kept" in page
    assert "The response of call 1 was not kept" in page
    assert "The request of call 2 is not a JSON object." in page
    assert "The response of call 2 is too large, or not text." in page


ODD: list[dict[str, object]] = [
    {"messages": 1, "tools": {"a": 1}, "system": 5},
    {"messages": [None, 1, "x", [], {"role": 1, "content": 7}, {"content": None}]},
    {"messages": [{"role": "user", "content": [{"type": 4}, None, {"text": "a"}]}]},
    {"tools": [None, 1, {"type": "web_search_1"}, {"defer_loading": True}], "mcp_servers": [1]},
    {"system": [{"type": "image", "source": {"type": "base64", "data": "aaaa"}}]},
    {
        "messages": [{"role": "user", "content": "\ud800"}],
        "metadata": {"a": {"b": {"c": {"d": {}}}}},
    },
]


@pytest.mark.slow
def test_odd_requests_can_be_compared(ann, subtests):
    for body in ODD:
        with subtests.test(str(body)[:60]):
            Compared(ann, REQUEST, body)
            Compared(ann, body, REQUEST)
            assert Compared(ann, body, body).differences() == []


def test_markup_of_bodies_stays_text(ann):
    after = {
        "model": EVIL,
        EVIL: EVIL,
        "system": EVIL,
        "tools": [{"name": EVIL, "description": EVIL}],
        "messages": [{"role": EVIL, "content": [text(EVIL), {"type": EVIL, "name": EVIL}]}],
    }
    page = Compared(ann, REQUEST, after, model=EVIL, title_text=EVIL, betas=EVIL, path_query=EVIL)
    assert "<script>alert" not in page.html
    assert "<img" not in page.html
    assert "\u202e" not in page.html
    assert page.html.count("⟨U+202E⟩") > 10
    parsed = Page(page.html)
    assert not parsed.doubled_ids()
    assert not parsed.unnamed_controls()


def test_a_long_history_is_compared_by_its_digests(ann):
    history = [turn("user", text(f"Message {n} " + "x" * 50)) for n in range(1_000)]
    edited = copy.deepcopy(history)
    edited[500]["content"][0]["text"] = "Message 500 is another"
    page = Compared(ann, changed(messages=history), changed(messages=edited))
    assert page.summary("Messages") == "1 changed, 999 equal"
    assert [each for each in page.folded() if "messages" in each] == [
        "500 messages equal",
        "499 messages equal",
    ]
    assert "and 100 more" in page.html


def test_of_very_many_differences_the_first_are_shown(ann, monkeypatch):
    monkeypatch.setattr("dashboard.compare.differences.MAX_SHOWN", 3)
    monkeypatch.setattr("dashboard.compare.comparison.MAX_SHOWN", 3)
    before, after = (
        changed(messages=[turn("user", text(f"{word} {n}")) for n in range(5)])
        for word in ("old", "new")
    )
    page = Compared(ann, before, after)
    assert len(page.differences()) == 3
    assert page.summary("Messages") == "5 changed"
    assert "… 2 more differences not shown here" in page.html


def test_the_page_of_a_call_leads_to_the_comparison(ann):
    ann.record({"session_id": "a"}, {"session_id": "a"})
    page = ann.get("/calls/2").text
    assert 'href="/traces/usage/1/compare/2"' in page
    assert 'action="/traces/usage/2/compare"' in page
    assert "Compare with the previous call" not in ann.get("/calls/1").text


# -- addresses -----------------------------------------------------------------------------------------


def test_a_field_leads_to_the_page_with_the_earlier_call_first(ann):
    ann.record({}, {"entry_id": "0199a000-0000-7000-8000-000000000001"})
    for one, other in (("1", "2"), ("2", "1"), ("1", "0199a000-0000-7000-8000-000000000001")):
        response = ann.get(f"/traces/usage/{one}/compare?with={other}")
        assert (response.status_code, response.headers["location"]) == (
            302,
            "/traces/usage/1/compare/2",
        )
    entry_page = ann.get("/traces/usage/0199a000-0000-7000-8000-000000000001/compare/1")
    assert "Calls 2 and 1 compared" in entry_page.text


def test_two_calls_that_are_ticked_in_the_list_are_compared(ann):
    ann.record({}, {}, {})
    page = Page(ann.get("/traces/usage").text)
    (form,) = [each for each in page.find("form") if each.attributes.get("id") == "compare-ticked"]
    ticks = [each for each in page.find("input") if each.attributes.get("form") == "compare-ticked"]
    assert [each.attributes["value"] for each in ticks] == ["3", "2", "1"]
    query = "&".join(f"{each.attributes['name']}={each.attributes['value']}" for each in ticks[::2])
    response = ann.get(f"{form.attributes['action']}?{query}")
    assert response.headers["location"] == "/traces/usage/1/compare/3"


@pytest.mark.parametrize("query", ["", "?call=1", "?call=1&call=2&call=3", "?call=1&call=x"])
def test_anything_but_two_ticked_calls_is_refused(ann, query):
    ann.record({}, {}, {})
    response = ann.get(f"/traces/compare{query}")
    assert response.status_code == 400
    assert "Tick two calls" in response.text


@pytest.mark.parametrize(
    "query", ["", "?with=", "?with=x", "?with=1%20or%201", "?with=" + "1" * 19]
)
def test_what_is_no_id_is_refused(ann, query):
    ann.record()
    response = ann.get(f"/traces/usage/1/compare{query}")
    assert response.status_code == 400
    assert "Enter the id of a call" in response.text


@pytest.mark.parametrize(
    "path",
    [
        "/traces/usage/1/compare/9",
        "/traces/usage/9/compare/1",
        "/traces/usage/1/compare?with=9999",
        "/traces/usage/1/compare/0199a000-0000-7000-8000-000000000009",
        "/traces/usage/1/compare/x",
    ],
)
def test_a_call_that_is_not_there_is_404(ann, path):
    assert ann.get(path).status_code == 404
    ann.record()
    response = ann.get(path)
    if response.status_code == 302:
        response = ann.get(response.headers["location"])
    assert response.status_code == 404
