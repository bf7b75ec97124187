"""Sessions by the API: the list in pages, one session, and those of others."""

from datetime import timedelta
from decimal import Decimal
from urllib.parse import quote

import pytest

from runtime import clock
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry


@pytest.fixture
def sessions(traces_path):
    with TraceDatabase(traces_path) as traces:
        traces.insert(
            [
                make_entry(
                    session_id=f"s/{number} ä",
                    created_at=clock.format_ms(clock.now() - number * timedelta(days=8)),
                    cost_cents=Decimal(number),
                    slug="default" if number else "other",
                )
                for number in range(3)
            ]
        )


def ids(response):
    assert response.status_code == 200, response.text
    return [each["session_id"] for each in response.json()["items"]]


def test_the_list_comes_in_pages_that_join(ann, sessions):
    first = ann("GET", "/sessions?limit=2")
    cursor = first.json()["nextCursor"]
    second = ann("GET", f"/sessions?limit=2&cursor={cursor}")
    assert ids(first) + ids(second) == ["s/0 ä", "s/1 ä", "s/2 ä"]
    assert (first.json()["hasMore"], second.json()["hasMore"]) == (True, False)
    assert second.json()["nextCursor"] is None


def test_the_list_is_chosen_from_and_ordered(ann, sessions):
    since = clock.format_ms(clock.now().replace(year=2020))
    assert ids(ann("GET", f"/sessions?order=cost&since={since}")) == ["s/2 ä", "s/1 ä", "s/0 ä"]
    assert ids(ann("GET", "/sessions?order=cost")) == ["s/0 ä"], "of the last 7 days"
    assert ids(ann("GET", "/sessions?endpoint=default")) == ["s/1 ä", "s/2 ä"]


def test_a_session_is_what_its_page_in_json_is(ann, client, keys, sessions):
    id_ = quote("s/1 ä", safe="")
    found = ann("GET", f"/sessions/{id_}")
    page = client.get(
        f"/sessions/{id_}.json", headers={"authorization": f"Bearer {keys['ann']}"}
    ).json()
    assert found.json() == page
    assert [turn["cost_cents"] for turn in page["turns"]] == [1.0]


def test_what_is_no_choice_is_refused(ann, sessions, subtests):
    for query in ("cursor=x", "order=name", "limit=0", "since=soon", "by=day"):
        with subtests.test(query):
            assert ann("GET", f"/sessions?{query}").status_code == 400


def test_those_of_other_organisations_are_not_there(ask, sessions):
    assert ids(ask("cid", "GET", "/sessions")) == []
    assert ask("cid", "GET", f"/sessions/{quote('s/1 ä')}").status_code == 404
    assert ask("ann", "GET", "/sessions/none").status_code == 404
