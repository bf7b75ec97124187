"""One call by the API, with a part of a body; and the limits."""

import pytest

from metering.rate_limits import RateLimits
from runtime import clock
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry, make_item

BODY = '{"text": "ä' + "x" * 100 + '"}'


@pytest.fixture
def call(traces_path):
    limits = RateLimits(unified_5h_utilization=0.5, account="account")
    entry = make_entry(
        created_at=clock.format_ms(clock.now()),
        request_body=BODY.encode(),
        cost_items=(make_item(),),
        rate_limits=limits,
    )
    with TraceDatabase(traces_path) as traces:
        traces.insert([entry])
    return entry


def test_a_call_is_found_by_both_ids_with_its_details(ann, call):
    found = ann("GET", "/calls/1").json()
    assert ann("GET", f"/calls/{call.entry_id}").json() == found
    assert (found["call"]["id"], found["call"]["model"]) == (1, call.model)
    assert "request_body" not in found["call"]
    assert [each["component"] for each in found["cost_items"]] == ["input"]
    assert (found["cache_break"], found["body"]) == (None, None)


def test_a_body_comes_in_parts_that_join(ann, call):
    text = ""
    offset: int | None = 0
    while offset is not None:
        path = f"/calls/1?body=request&offset={offset}&length=40"
        part = ann("GET", path).json()["body"]
        text += part["text"]
        assert part["next_offset"] in (offset + 40, None)
        offset = part["next_offset"]
    assert text == BODY
    behind = ann("GET", "/calls/1?body=request&offset=5000").json()["body"]
    assert (behind["text"], behind["next_offset"]) == ("", None)


def test_what_is_no_part_is_refused(ann, call, subtests):
    for query in ("body=both", "offset=-1", "length=0", "length=64001", "body="):
        with subtests.test(query):
            assert ann("GET", f"/calls/1?{query}").status_code == 400


def test_a_call_that_is_not_there_is_not_found(ann, call, subtests):
    for id_ in ("2", "none", "9" * 30, "٣", "0"):
        with subtests.test(id_):
            assert ann("GET", f"/calls/{id_}").status_code == 404


def test_those_of_other_organisations_are_not_there(ask, call):
    assert ask("cid", "GET", "/calls/1").status_code == 404
    assert ask("cid", "GET", "/limits").json()["items"] == []


def test_limits_are_those_of_the_page(ann, client, keys, call):
    page = client.get("/limits.json", headers={"authorization": f"Bearer {keys['ann']}"}).json()
    assert [each["window"] for each in page["items"]] == ["5h"]
    assert ann("GET", "/limits").json() == page
