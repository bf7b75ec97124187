"""Responses of bounded size: what is shown, what is left out, and where it goes on."""

import json

import pytest

from extensions.mcp.answers import MAX_BYTES, MAX_ROWS, CursorError, Place, answer


def read_all(rows, **head):
    """The rows of all responses, with how many there were."""
    found, cursor, count = [], None, 0
    while True:
        text = answer(head, "rows", rows, Place.parse(cursor))
        assert len(text.encode()) <= MAX_BYTES
        document = json.loads(text)
        found += document["rows"]
        count += 1
        cursor = document.get("next_cursor")
        if cursor is None:
            return found, count
        assert document["left_out"] == len(rows) - len(found)


@pytest.mark.parametrize("text", ["short", "x" * 1_500, "€" * 700, '"\\' * 500])
def test_the_rows_of_all_responses_are_the_rows(text):
    rows = [{"number": number, "text": text} for number in range(45)]
    found, count = read_all(rows, head="x")
    assert found == rows
    assert count >= len(rows) / MAX_ROWS


def test_a_row_that_is_too_large_comes_alone():
    rows = [{"a": "x" * MAX_BYTES}, {"a": "y"}]
    document = json.loads(answer({}, "rows", rows, Place()))
    assert (len(document["rows"]), document["next_cursor"]) == (1, "1")


def test_a_page_of_the_api_is_followed_by_the_next():
    rows = [{"number": number} for number in range(25)]
    first = json.loads(answer({}, "rows", rows, Place(0, "here"), "there"))
    assert (first["next_cursor"], first["left_out"]) == ("20.here", 5)
    second = json.loads(answer({}, "rows", rows, Place.parse("20.here"), "there"))
    assert (second["next_cursor"], second["left_out"]) == ("0.there", "more")
    assert Place.parse("0.there") == Place(0, "there")


@pytest.mark.parametrize("cursor", ["x", "-1", "1e3", "٣", "9" * 20])
def test_any_other_cursor_is_refused(cursor):
    with pytest.raises(CursorError):
        Place.parse(cursor)
