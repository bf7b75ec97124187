"""The content of a response, from a stream that is whole, cut or growing, and from a document."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tests.processor_time import takes_less_than
from tests.recorded import RECORDED, needs_recorded
from tests.wire.streams import BEGUN, ENDED, FALLBACK, STREAMS, TEXT, TOOL, delta, event, start
from wire import content
from wire.block import list_blocks
from wire.content import MAX_BLOCKS, Content, find_fallbacks, read_content
from wire.response import GrowingResponse


def fields_of(found: Content) -> list[dict[str, object]]:
    return [block.to_fields() for block in found.blocks]


def read_slowly(body: bytes) -> list[dict[str, object]]:
    """Return what each event by itself gives."""
    return fields_of(content._parse(body, content.MAX_EVENTS))


def grow(*parts: bytes) -> GrowingResponse:
    response = GrowingResponse()
    for part in parts:
        response.feed(part)
    response.finish()
    return response


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text", [{"type": "text", "text": "The quokka \u65e5"}]),
        ("characters", [{"type": "text", "text": 'is \U0001f600 here \\ "q"\n\n'}]),
        (
            "thinking",
            [
                {"type": "thinking", "thinking": "hm, yes", "signature": "c2ln"},
                {"type": "text", "text": "Yes."},
            ],
        ),
        ("tool", [TOOL | {"input": {"command": "ls wombats", "n": 1}}]),
        ("citations", [TEXT | {"text": "as it says", "citations": [{"cited_text": "a"}]}]),
        ("compaction", [{"type": "compaction", "content": "Until now: much."}]),
        ("fallback", [FALLBACK, {"type": "text", "text": "b says"}]),
        ("blocks of one index", [{"type": "text", "text": "one"}, TOOL]),
        ("no indexes", [{"type": "text", "text": "one"}, TOOL]),
        (
            "lost starts",
            [{"type": "text", "text": "no start"}, {"type": "thinking", "thinking": "none"}],
        ),
        ("error", [{"type": "text", "text": "so"}]),
        ("other order", [{"type": "text", "text": "odd"}]),
    ],
)
def test_blocks_are_as_a_document_has_them(name, expected):
    assert fields_of(read_content(STREAMS[name])) == expected
    document = json.dumps({"type": "message", "content": expected}).encode()
    assert fields_of(read_content(document)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "end"), [*((name, b"\n") for name in STREAMS), ("tool", b"\r\n"), ("tool", b"\r")]
)
def test_a_stream_cut_anywhere_has_what_came_until_then(name, end):
    """Read at once, event by event, or as the bytes come: all have the same prefix of the whole."""
    body = STREAMS[name].replace(b"\n", end)
    whole = fields_of(read_content(body))
    growing = GrowingResponse()
    seen = []
    for cut in range(len(body) + 1):
        growing.feed(body[max(cut - 1, 0) : cut])
        found = fields_of(read_content(body[:cut]))
        seen.append(found)
        assert found == read_slowly(body[:cut])
        assert [block.to_fields() for block in growing.content.blocks] in seen
        assert found[:-1] == whole[: max(len(found) - 1, 0)]
        for field, value in found[-1].items() if found else ():
            text = whole[len(found) - 1].get(field)
            if isinstance(value, str) and isinstance(text, str):
                assert text.startswith(value.removesuffix("\ufffd"))
    growing.finish()
    assert [block.to_fields() for block in growing.content.blocks] == whole


@given(stream=st.sampled_from([*STREAMS.values()]), data=st.data())
def test_where_a_growing_response_is_cut_makes_no_difference(stream, data):
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    ends = sorted({0, len(stream), *places})
    parts = [stream[a:b] for a, b in pairwise(ends)]
    found = grow(*parts)
    assert [block.to_fields() for block in found.content.blocks] == fields_of(read_content(stream))
    assert found.envelope == grow(stream).envelope


def test_what_was_begun_of_the_input_of_a_tool_is_its_text():
    body = BEGUN + start(TOOL) + delta("input_json", partial_json='{"comm')
    assert read_content(body).blocks[0].input == '{"comm'


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"data: {", b'{"content": 5}', b"\xff\xfe", b'{"content": [1, null]}'),
        event("content_block_delta", index=-1, delta={"text": "a"}),
        event("content_block_delta", index=MAX_BLOCKS, delta={"text": "a"}),
        event("content_block_delta", index=True, delta={"text": "a"}),
        event("content_block_start", index="0", content_block={"type": "text"}),
        event("content_block_delta", index=0, delta=[1]),
    ],
)
def test_what_is_no_content_is_none(body):
    assert all(not fields for fields in fields_of(read_content(body)))


def test_a_carriage_return_ends_a_line_of_an_event():
    ended = delta("text", text="a").removesuffix(b"\n\n") + b"\rdata: more\n\n"
    stream = start(TEXT) + ended
    assert fields_of(read_content(stream)) == read_slowly(stream) == [TEXT | {"text": ""}]


@pytest.mark.slow
def test_a_long_stream_is_read_in_time_that_is_proportional():
    body = start(TEXT) + delta("text", text="x" * 20) * 20_000 + delta("citations", citation={})
    with takes_less_than(1.2):
        assert len(read_content(body).blocks[0].text("text")) == 400_000


def test_of_very_many_blocks_the_first_are_read():
    assert len(read_content(start(TEXT) * (MAX_BLOCKS + 10)).blocks) == MAX_BLOCKS


def test_more_events_than_are_read_are_noted():
    body = BEGUN + start(TEXT) + delta("text", text="a") + delta("text", text="b")
    beginning = read_content(body, max_events=3)
    assert beginning.is_beginning
    assert fields_of(beginning) == [{"type": "text", "text": "a"}]
    assert not read_content(body, max_events=4).is_beginning


def test_a_short_response_is_taken_apart_once_and_a_long_one_is_not_remembered():
    content._remember_stream.cache_clear()
    short = BEGUN + start(TEXT) + delta("text", text="a") + ENDED
    long = short.replace(b'"a"', b'"%b"' % (b"a" * content.MAX_REMEMBERED_BYTES))
    for _ in range(3):
        read_content(bytes(bytearray(short)))
        read_content(long)
    info = content._remember_stream.cache_info()
    assert (info.hits, info.misses, info.currsize) == (2, 1, 1)


def test_the_events_by_which_another_model_takes_over_are_found():
    said = delta("text", text='{"content_block": {"type": "fallback"}} "fallback"')
    body = BEGUN + start(TEXT) + said + start(FALLBACK, 1) + start(TEXT, 2) + start(FALLBACK, 3)
    first = len(BEGUN + start(TEXT) + said)
    assert find_fallbacks(body, 1) == [first]
    assert find_fallbacks(body, 5) == [first, first + len(start(FALLBACK, 1) + start(TEXT, 2))]


@given(st.binary(max_size=300))
def test_any_bytes_are_read(noise):
    for body in (noise, BEGUN + start(TEXT) + noise, b'{"content": [' + noise, noise + ENDED):
        read_content(body)
        find_fallbacks(body, 3)
        grow(body)


@given(st.recursive(st.none() | st.text(max_size=3), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["type", "text", "index", "citation", "partial_json"]), x, max_size=4), max_leaves=8))  # fmt: skip
def test_any_json_is_read(value):
    fields_of(Content(list_blocks(value)))
    body = start(value) + event("content_block_delta", index=0, delta=value)
    assert fields_of(read_content(body)) == read_slowly(body)


@needs_recorded
def test_recorded_streams_are_read_alike_by_all_ways():
    quick = 0
    for path in sorted(RECORDED.glob("*.sse")):
        body = path.read_bytes()
        assert fields_of(read_content(body)) == read_slowly(body)
        assert [block.to_fields() for block in grow(body).content.blocks] == read_slowly(body)
        quick += content._read_quickly(body) is not None
    assert quick > 10
