"""Calls that were imported from transcripts: pages say so, and nothing of them that was not measured."""

import pytest

from metering.token_counts import TokenCounts
from tests.dashboard.pages import words_of


@pytest.fixture
def call(ann, queries):
    return ann.record(
        session_id="s1",
        usage_source="imported",
        billing="imported",
        duration_ms=None,
        ttfb_ms=None,
        proxy_overhead_ms=None,
        request_body=None,
        response_body=None,
        tokens=TokenCounts(input_tokens=10, output_tokens=20),
    )


def test_the_list_the_call_and_the_session_say_that_it_is_imported(ann, call):
    assert "imported" in words_of(ann.get("/calls?period=all").text)
    assert " imported " in words_of(ann.get(f"/calls/{call}").text)
    details = words_of(ann.get(f"/calls/{call}/details").text)
    assert "imported from a transcript of the client" in details
    session = words_of(ann.get("/sessions/s1").text)
    assert "1 call of it is imported from transcripts, which do not say who paid." in session
    assert "not billed to you" not in session.lower()
