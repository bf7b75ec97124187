"""Estimating the output of streams that were cut, by what was delivered of them."""

import json
import random
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given, strategies as st

from bench import estimates
from bench.estimates import find_median, load_exchanges, measure_errors
from metering.cut_streams import estimate_usage
from metering.delivered import (
    CITATION_CHARACTERS,
    MAX_READ_BYTES,
    THINKING_CHARACTERS,
    TOOL_CHARACTERS,
    UNKNOWN_SIZE,
    Delivered,
    OutputSize,
    measure,
)
from metering.output_estimate import (
    CHARACTERS_PER_TOKEN,
    END_CHARACTERS,
    is_estimable,
    measure_output,
)
from metering.usage import Usage, read_usage
from tests.metering.responses import event, make_body
from tests.processor_time import takes_less_than
from tests.recorded import needs_recorded


def start(output_tokens: int = 1, **usage: object) -> bytes:
    counts = {"input_tokens": 10, "output_tokens": output_tokens, **usage}
    return event("message_start", message={"model": "claude-opus-5", "usage": counts})


def block(kind: str, **fields: object) -> bytes:
    return event("content_block_start", index=0, content_block={"type": kind, **fields})


def delta(kind: str, **fields: object) -> bytes:
    return event("content_block_delta", index=0, delta={"type": kind, **fields})


def text(words: str) -> bytes:
    return delta("text_delta", text=words)


def counted(output_tokens: int, stop_reason: str | None = None) -> bytes:
    usage = {"output_tokens": output_tokens}
    return event("message_delta", delta={"stop_reason": stop_reason}, usage=usage)


def read(body: bytes, *, is_complete: bool = False) -> Usage:
    return read_usage(200, "text/event-stream", body, is_complete=is_complete)


def estimate(body: bytes, size: OutputSize = UNKNOWN_SIZE) -> int | None:
    return estimate_usage(read(body), body, lambda _: size).tokens.output_tokens


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (0, 0)),
        (text("four"), (4, 0)),
        (block("text", text="ab") + text("cd"), (4, 0)),
        (text("zwölf"), (6, 0)),
        (text("\u65e5\u672c"), (6, 0)),
        (
            block("thinking", thinking="") + delta("thinking_delta", thinking="hm"),
            (0, THINKING_CHARACTERS + 2),
        ),
        (delta("thinking_delta", thinking="hm"), (0, THINKING_CHARACTERS + 2)),  # its start is lost
        (delta("signature_delta", signature="x" * 400), (0, 0)),
        (
            block("tool_use", id="t", name="Read", input={})
            + delta("input_json_delta", partial_json='{"a'),
            (TOOL_CHARACTERS + 3, 0),
        ),
        (block("mcp_tool_use", input={"a": 1}), (TOOL_CHARACTERS + 7, 0)),
        (delta("citations_delta", citation={"cited_text": "x" * 400}), (CITATION_CHARACTERS, 0)),
        (block("web_search_tool_result", content=[{"text": "x" * 400}]), (0, 0)),
        (delta("compaction_delta", content="a summary"), (0, 0)),
        (delta("a_new_delta", text="a new kind"), (10, 0)),
        (text('event: x\n\ndata: {"type":"content_block_delta"}\n\n'), (48, 0)),  # an imitation
        (text("kept") + text("cut off")[:-9], (4, 0)),
        (b"data: {content_block_\n\n" + text("kept"), (4, 0)),
        (b'data: {"type":"content_block_delta","delta":[1]}\n\n' + delta("text_delta", text=7), (0, 0)),
    ],
)  # fmt: skip
def test_what_a_model_wrote_is_measured_and_nothing_else(body, expected):
    found = measure(body)
    assert (found.characters, found.thinking_characters) == expected


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
def test_events_are_measured_however_their_lines_are_written(end):
    event = b'data: {"type":"content_block_delta",\ndata:"index":0,"delta":{"type":"text_delta","text":"four"}}\n\n'
    assert measure((text("four") + event + text("four")).replace(b"\n", end)).characters == 12


def test_a_document_has_the_size_of_the_stream_with_the_same_content():
    content = [
        {"type": "text", "text": "Let me see.", "citations": [{}]},
        {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a"}},
    ]
    expected = Delivered(
        characters=11 + CITATION_CHARACTERS + TOOL_CHARACTERS + len('{"path":"a"}')
    )
    assert measure(json.dumps({"content": content}).encode()) == expected


@pytest.mark.parametrize(
    "body",
    [block("redacted_thinking", data="x"), block("thinking", thinking="")],
)
def test_thinking_that_is_not_shown_is_noted(body):
    assert measure(body).hides_thinking
    assert not measure(text("no thinking")).hides_thinking


def test_an_estimate_is_characters_by_the_constant_until_a_model_is_known():
    assert estimate(start() + text("x" * 370)) == round(370 / CHARACTERS_PER_TOKEN)


def test_an_estimate_follows_the_complete_responses_of_the_model():
    size = OutputSize(characters=20_000, tokens=10_000)
    assert estimate(start() + text("x" * 400), size) == pytest.approx(200, abs=2)


def test_thinking_has_characters_per_token_of_its_own():
    size = OutputSize(thinking_characters=10_000, thinking_tokens=10_000)
    body = start() + delta("thinking_delta", thinking="x" * (400 - THINKING_CHARACTERS))
    assert estimate(body, size) == pytest.approx(400, abs=10)


@pytest.mark.parametrize("body", [start(88), start() + counted(88)])
def test_an_estimate_is_not_below_what_upstream_has_counted(body):
    assert estimate(body + text("short")) == 88


@pytest.mark.parametrize(
    ("body", "is_complete", "expected"),
    [
        (start() + text("a"), False, True),
        (start() + text("a"), True, True),  # ended without counts
        (start() + text("a") + counted(5), False, True),
        (start() + text("a") + counted(5, "end_turn"), False, False),  # all is counted
        (start() + text("a") + counted(5, "end_turn"), True, False),
        (text("a"), False, False),  # its beginning is missing
        (b'{"type":"message","content":[{"type":"text","te', False, False),
    ],
)
def test_streams_that_were_cut_before_their_final_counts_are_estimated(body, is_complete, expected):
    assert is_estimable(read(body, is_complete=is_complete)) is expected


def test_an_estimate_keeps_every_other_count():
    usage = read(start(cache_read_input_tokens=7) + text("a" * 40))
    found = estimate_usage(usage, start() + text("a" * 40), lambda _: UNKNOWN_SIZE)
    assert found == replace(
        usage,
        source="estimated",
        tokens=replace(usage.tokens, output_tokens=found.tokens.output_tokens),
        passes=found.passes,
    )
    assert [each.tokens for each in found.passes] == [found.tokens]
    assert (found.tokens.input_tokens, found.tokens.cache_read_input_tokens) == (10, 7)


@pytest.mark.parametrize("kind", ["document", "stream"])
def test_a_complete_response_tells_characters_per_token(kind):
    content = [{"type": "text", "text": "x" * 400}]
    body = make_body(kind, content, {"input_tokens": 1, "output_tokens": 104})
    usage = read_usage(200, None, body, is_complete=True)
    assert measure_output(usage, body) == OutputSize(characters=400 + END_CHARACTERS, tokens=104)


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ([{"type": "text", "text": "x" * 400}], {"output_tokens": 10_000}),  # text is left out
        ([{"type": "text", "text": "x" * 400}], {"output_tokens": 10}),
        ([{"type": "text", "text": "x" * 400}], {"output_tokens": 0}),
        ([{"type": "thinking", "thinking": "x" * 400}], {"output_tokens": 100}),  # counted together
        ([{"type": "redacted_thinking"}, {"type": "text", "text": "x" * 400}], {"output_tokens": 100}),
    ],
)  # fmt: skip
def test_a_response_whose_text_is_not_what_was_counted_tells_nothing(content, tokens):
    body = make_body("document", content, {"input_tokens": 1, **tokens})
    assert measure_output(read_usage(200, None, body, is_complete=True), body) is None


def test_thinking_that_is_counted_apart_is_measured_apart():
    content = [
        {"type": "thinking", "thinking": "x" * 340},
        {"type": "text", "text": "x" * 384},
    ]
    details = {"output_tokens_details": {"thinking_tokens": 200}}
    body = make_body("document", content, {"input_tokens": 1, "output_tokens": 300} | details)
    assert measure_output(read_usage(200, None, body, is_complete=True), body) == OutputSize(
        characters=400, tokens=100, thinking_characters=400, thinking_tokens=200
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_long_stream_is_measured_by_some_of_its_parts(seed):
    sizes = random.Random(seed)  # noqa: S311 - the same sizes in each run
    pieces, longer = (
        [text("x" * sizes.randint(1, most)) for _ in range(2_000)] for most in (60, 300)
    )
    found = {"type": "web_search_tool_result", "content": "y" * 20_000}  # much that is no output
    result = event("content_block_start", index=1, content_block=found)
    pieces[500:500] = pieces[1000:1000] = [result] * 5
    body = start() + b"".join(pieces) * 16 + b"".join(longer) * 10
    assert len(body) > 4 * MAX_READ_BYTES
    exact = body.count(b"x") - start().count(b"x")
    assert measure(body).characters == pytest.approx(exact, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        b"data: {content_block_\n\n",
        b"data:content_block_\n",
        text(""),
        b"content_block_" * 100,
        b"\r\n\rdata: content_block_{",
    ],
)
def test_millions_of_tiny_deltas_take_no_second(piece):
    body = start() + piece * (20_000_000 // len(piece))
    with takes_less_than(1):
        estimate_usage(read(start()), body, lambda _: UNKNOWN_SIZE)


@given(st.binary(max_size=300))
def test_any_bytes_are_measured(noise):
    measure(start() + noise + text("x"))
    measure(noise)


@needs_recorded
@pytest.mark.slow
def test_the_median_error_over_recorded_streams_is_at_most_a_tenth(monkeypatch):
    monkeypatch.setattr(estimates, "CUTS", 8)
    found = [each for each in measure_errors(load_exchanges()) if each.others]
    assert len(found) >= 20
    assert find_median(each.by_others for each in found) <= 0.10
    assert median(each.whole for each in found) <= 0.15
