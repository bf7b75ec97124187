"""The JSON of bodies, whatever the chunks are that they come in."""

import base64
import json

import pytest
from hypothesis import given, strategies as st

from store.traces.bodies import body_json
from store.traces.bodies.body_json import encode_body


def split(body, sizes):
    for size in sizes:
        yield body[:size]
        body = body[size:]
    yield body


@given(st.text(st.characters(exclude_categories=["Cs"])), st.lists(st.integers(1, 5)))
def test_text_is_the_same_text(text, sizes):
    encoded = b"".join(encode_body(split(text.encode(), sizes), is_text=True))
    assert json.loads(encoded) == text


@given(st.binary(), st.lists(st.integers(1, 5)))
def test_other_bytes_are_written_as_datasette_writes_them(body, sizes):
    encoded = b"".join(encode_body(split(body, sizes), is_text=False))
    assert json.loads(encoded) == {"$base64": True, "encoded": base64.b64encode(body).decode()}


@pytest.mark.parametrize("is_text", [True, False])
def test_no_part_is_larger_than_that_of_some_bytes(is_text):
    body = b"\1" * 2_000_001
    parts = list(encode_body([body], is_text=is_text))
    assert max(map(len, parts)) <= 6 * body_json.PART_BYTES
    found = json.loads(b"".join(parts))
    assert (found if is_text else base64.b64decode(found["encoded"]).decode()) == body.decode()
