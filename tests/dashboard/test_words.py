"""Pages use the words and the writing of figures that other dashboards use."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from dashboard.tables.filter_words import describe
from dashboard.tables.metadata import METADATA_PATH
from runtime import clock
from tests import ROOT
from tests.dashboard.pages import Page
from tests.proxy_endpoints import create_endpoint

DASHBOARD = ROOT / "dashboard"
METADATA = json.loads(METADATA_PATH.read_text())["databases"]["traces"]
DIALECT = (
    "dearest",
    "unless days says",
    "What runs",
    "What happened",
    "Its calls",
    "Exactly as it came",
    "What was answered",
    "Tokens in cached",
    "Who asks",
    "Whoever",
    "Questions, answered",
    "Your own question",
    "figures only",
    "cache mark",
    "Until the last byte",
    "the answer",
    "an answer",
)
SESSION = "7d1c2a40-5a0e-4c77-9d0f-2f6b54d1e0aa"
_NOT_TEXT = {"script", "style", "pre", "textarea", "title"}

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


class Visible(HTMLParser):
    """A parser for the words of a page, without code and what is typed."""

    def __init__(self, text):
        super().__init__()
        self.texts = []
        self._within = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._within += tag in _NOT_TEXT

    def handle_endtag(self, tag):
        self._within -= tag in _NOT_TEXT

    def handle_data(self, data):
        if not self._within:
            self.texts.append(data)


def read(page):
    return " ".join(" ".join(Visible(page).texts).split())


@pytest.fixture
def ann(ann, control):
    create_endpoint(control, ann.organization_id, "team")
    now = clock.format_ms(clock.now())
    body = b'{"messages": [{"role": "user", "content": "Good evening"}]}'
    ann.record(
        *(
            {
                "request_body": body,
                "response_body": b"{}",
                "input_tokens": 1_234_567,
                "ttfb_ms": 5.0,
            }
            for _ in range(3)
        ),
        {"model": None, "request_model": "claude-a", "outcome": "upstream_error"},
        created_at=now,
        session_id=SESSION,
        retry_count=1,
    )
    return ann


TABLES = [f"/traces/{name}" for name, about in METADATA["tables"].items() if "columns" in about]
QUERIES = [f"/traces/{name}" for name in METADATA["queries"] if name != "read_body"]
SQL = "select id, entry_id, session_id, created_at, input_tokens, cost_cents from usage"
PAGES = [
    "/",
    "/?measure=time",
    "/?measure=prompt",
    "/sessions",
    f"/sessions/{SESSION}",
    "/settings",
    "/traces",
    "/traces/usage",
    "/traces/usage?outcome__notin=complete,client_disconnected&_facet=model",
    "/calls/1",
    *TABLES,
    *QUERIES,
    f"/traces?sql={quote(SQL)}",
]


def find_dialect(text):
    return [words for words in DIALECT if words in text]


def test_templates_say_it_in_common_words():
    for path in [*DASHBOARD.rglob("*.html"), *DASHBOARD.rglob("*.txt"), METADATA_PATH]:
        assert not find_dialect(re.sub(r"\{#.*?#\}", "", path.read_text(), flags=re.DOTALL)), path


def test_pages_are_written_for_people(ann, subtests):
    for path in PAGES:
        with subtests.test(path):
            written = ann.get(path).text
            text = read(written)
            assert not find_dialect(text)
            check_times_identifiers_and_numbers(path, text)
            check_costs_are_in_dollars(Page(written))


def test_no_page_has_two_links_of_one_name_to_different_places(ann):
    for path in ("/", "/traces", "/settings"):
        links = {
            (each.text, each.attributes["href"])
            for each in Page(ann.get(path).text).find("a")
            if not each.is_within(
                "header"
            )  # the parts of the product, which tables are named after
        }
        doubled = [name for name, count in Counter(text for text, _ in links).items() if count > 1]
        # Calls that arrived in one second are told apart by what stands beside them.
        assert [name for name in doubled if not name.startswith("Call of ")] == [], path


def check_times_identifiers_and_numbers(path, text):
    assert not re.search(r"\d{4}-\d\d-\d\dT\d\d", text)
    assert "1234567" not in text
    if path.startswith("/traces"):
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-", text)
    if re.search(r"\d\d:\d\d", text):
        assert "UTC" in text


def check_costs_are_in_dollars(page):
    for each in (*page.find("td"), *page.find("th"), *page.find("dd")):
        is_description = each.is_within("details") and each.tag == "dd"
        if not is_description:
            assert "cents" not in each.text


def test_rows_of_a_query_lead_to_their_calls(ann):
    page = Page(ann.get(f"/traces?sql={quote(SQL)}").text)
    links = [each.attributes["href"] for each in page.find("a") if each.is_within("td")]
    ids = [link for link in links if re.fullmatch(r"/calls/\d+", link)]
    entries = [link for link in links if re.fullmatch(r"/calls/[0-9a-f-]{36}", link)]
    assert sorted(ids) == [f"/calls/{number}" for number in range(1, 5)]
    assert len(entries) == len(ids)
    assert {ann.get(link).status_code for link in (*entries, *ids)} == {200}
    page = Page(ann.get("/traces/cost_explained").text)
    explained = [each.attributes["href"] for each in page.find("a") if each.is_within("td")]
    assert {ann.get(link).status_code for link in explained} == {200}  # by usage_id, by entry_id


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ([], ""),
        ([("outcome", "notin", '["complete"]')], "where outcome is not complete"),
        (
            [("outcome", "notin", "complete,client_disconnected")],
            "where outcome is not complete or cut by the client",
        ),
        ([("outcome", "exact", "upstream_timeout")], "where outcome is timed out"),
        ([("created_at", "gte", "2026-01-02")], "where time is from 2026-01-02"),
        ([("cost_cents", "gt", "5")], "where cost cents is more than 5"),
        (
            [("model", "isnull", "1"), ("request_model", "exact", "claude-a")],
            "where model is not set and request model is claude-a",
        ),
        ([("slug", "in", "a, b")], "where endpoint is a or b"),
        ([("slug", "in", "[1, {")], "where endpoint is [1, {"),
        ([("slug", "exact", "{value} {0}")], "where endpoint is {value} {0}"),
        ([("slug", "nonsense", "x")], ""),
    ],
)
def test_conditions_are_told_in_words(conditions, words):
    assert describe(conditions) == words


def test_a_page_with_a_condition_says_it_in_words(ann, subtests):
    for comparison in ("exact", "not", "in", "notin", "isnull", "date", "glob"):
        with subtests.test(comparison):
            page = Page(ann.get(f"/traces/usage?outcome__{comparison}=complete").text)
            lead = page.find("p", "lede")[0].text
            assert not re.search(r'[\["\]=]|null', lead), lead
            assert "where outcome" in lead
