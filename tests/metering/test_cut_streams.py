"""Estimates of streams that were cut, by pass.

Costs are worked out by hand, in cents: tokens x US dollars per million / 10,000. Input and output cost 10
and 50 for claude-fable-5, 5 and 25 for claude-opus-4-8, 1 and 5 for claude-haiku-4-5. Until a model has
sizes of its own, 3.7 characters are a token."""

import json
from decimal import Decimal

import pytest

from metering import delivered
from metering.billed_passes import make_call
from metering.cut_streams import estimate_usage
from metering.delivered import UNKNOWN_SIZE, OutputSize
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.usage import read_usage
from tests.metering.responses import NOW, event, fallback_block
from tests.processor_time import takes_less_than
from tests.recorded import RECORDED, needs_recorded

FABLE, OPUS, HAIKU = "claude-fable-5", "claude-opus-4-8", "claude-haiku-4-5"
PRICES = PriceTable()
ADVICE = {"type": "advisor_result", "text": "x" * 370}
REQUEST = json.dumps(
    {"tools": [{"name": "Read"}, {"type": "advisor_20260301", "name": "advisor", "model": OPUS}]}
).encode()


def start(model=FABLE, **usage):
    counts = {"input_tokens": 1000, "output_tokens": 1, **usage}
    return event("message_start", message={"model": model, "usage": counts})


def block(content_block, index=0):
    return event("content_block_start", index=index, content_block=content_block)


def text(characters):
    delta = {"type": "text_delta", "text": "x" * characters}
    begun = block({"type": "text", "text": ""})
    return begun + event("content_block_delta", index=0, delta=delta)


def hop(source, target, category="cyber"):
    return block(fallback_block(source, target, category))


def compaction(characters, index=0):
    delta = {"type": "compaction_delta", "content": "x" * characters}
    begun = block({"type": "compaction", "content": None}, index)
    return begun + event("content_block_delta", index=index, delta=delta)


def advice(content):
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}}
    result = {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": content}
    return block(use, 1) + block(result, 2)


def bill(body, request=b"", find_size=lambda _: UNKNOWN_SIZE):
    usage = read_usage(200, "text/event-stream", body, is_complete=False)
    usage = estimate_usage(usage, body, find_size, request)
    call = make_call(usage, created_at=NOW, outcome="client_disconnected", status_code=200)
    return price_call(call, PRICES)


def cents_of(*args, **fields):
    return bill(*args, **fields)[1]


def lines_of(*args, **fields):
    """Return model, component, quantity, whether it is estimated, and why it is not billed."""
    return [
        (item.model, item.component, item.quantity, item.estimated, item.unbilled_reason)
        for item in bill(*args, **fields)[0]
    ]


# --- fallbacks


def test_a_stream_cut_before_any_fallback_is_that_of_the_first_model():
    body = start() + text(740)
    # 1000 x 10 + 200 x 50 = 20,000
    assert cents_of(body) == 2
    assert lines_of(body) == [
        (FABLE, "input", 1000, False, None),
        (FABLE, "output", 200, True, None),
    ]


@pytest.mark.parametrize(
    ("category", "cents", "reason"),
    [
        # the model that took over: 1000 x 5 + 200 x 25 = 10,000
        ("cyber", 1, "declined_hop"),
        # and 1000 x 10 of the one that declined for bio
        ("bio", 2, None),
    ],
)
def test_what_follows_a_fallback_is_of_the_model_that_took_over(category, cents, reason):
    body = start() + hop(FABLE, OPUS, category) + text(740)
    assert cents_of(body) == cents
    assert lines_of(body) == [
        (FABLE, "input", 1000, False, reason),
        (FABLE, "output", 1, True, "declined_hop"),
        (OPUS, "input", 1000, True, None),  # the same request, which nobody has counted
        (OPUS, "output", 200, True, None),
    ]


def test_after_two_fallbacks_each_model_is_billed_by_its_own_trigger():
    body = start() + hop(FABLE, OPUS) + hop(OPUS, HAIKU, "bio") + text(740)
    # 1000 x 5 of the one that declined for bio, 1000 x 1 + 200 x 5: 7,000
    assert cents_of(body) == Decimal("0.7")
    assert lines_of(body) == [
        (FABLE, "input", 1000, False, "declined_hop"),
        (FABLE, "output", 1, True, "declined_hop"),
        (OPUS, "input", 1000, True, None),
        (HAIKU, "input", 1000, True, None),
        (HAIKU, "output", 200, True, None),
    ]


def test_what_a_model_delivered_before_it_declined_is_its_own():
    body = start() + text(370) + hop(FABLE, OPUS) + text(740)
    # 1000 x 10 + 100 x 50 = 15,000 and 1000 x 5 + 200 x 25 = 10,000
    assert cents_of(body) == Decimal("2.5")
    assert lines_of(body) == [
        (FABLE, "input", 1000, False, None),
        (FABLE, "output", 100, True, None),
        (OPUS, "input", 1000, True, None),
        (OPUS, "output", 200, True, None),
    ]


def test_the_second_of_two_models_that_declined_pays_for_what_it_delivered():
    body = start() + hop(FABLE, OPUS) + text(370) + hop(OPUS, HAIKU) + text(740)
    # 1000 x 5 + 100 x 25 = 7,500 and 1000 x 1 + 200 x 5 = 2,000
    assert cents_of(body) == Decimal("0.95")


def test_each_model_has_characters_per_token_of_its_own():
    sizes = {
        FABLE: OutputSize(characters=2e9, tokens=1e9),
        OPUS: OutputSize(characters=5e9, tokens=1e9),
    }
    body = start() + text(370) + hop(FABLE, OPUS) + text(740)
    outputs = [line for line in lines_of(body, find_size=sizes.get) if line[1] == "output"]
    assert [(model, quantity) for model, _, quantity, *_ in outputs] == [(FABLE, 185), (OPUS, 148)]


def test_the_tokens_of_the_entry_are_those_of_the_model_that_served():
    body = start() + text(370) + hop(FABLE, OPUS) + text(740)
    usage = read_usage(200, None, body, is_complete=False)
    found = estimate_usage(usage, body, lambda _: UNKNOWN_SIZE)
    assert (found.source, found.model, found.tokens.output_tokens) == ("estimated", OPUS, 200)


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
def test_a_long_stream_is_divided_where_the_model_changed(end, monkeypatch):
    monkeypatch.setattr(delivered, "MAX_READ_BYTES", 256 * 1024)
    piece = text(50)
    half = piece * (delivered.MAX_READ_BYTES // len(piece))
    body = (start() + half + hop(FABLE, OPUS) + half + half).replace(b"\n", end)
    exact = 50 * (len(half) // len(piece)) / 3.7
    (first, second) = [line[2] for line in lines_of(body) if line[1] == "output"]
    assert (first, second) == (pytest.approx(exact, rel=0.02), pytest.approx(2 * exact, rel=0.02))


def test_text_about_fallbacks_divides_nothing():
    words = json.dumps({"content_block": fallback_block(FABLE, OPUS)}) + ' "fallback"'
    spoken = event(
        "content_block_delta", index=0, delta={"type": "text_delta", "text": words, "x": "fallback"}
    )
    body = start() + spoken + text(370) + hop(FABLE, OPUS) + text(740)
    assert [line[2] for line in lines_of(body) if line[0] == OPUS] == [1000, 200]


# --- compaction and advice


def test_a_compaction_is_a_pass_with_the_counts_of_the_first_event():
    body = start() + compaction(370) + text(740)
    # 1000 x 10 + 100 x 50 = 15,000, and 200 x 50 of the pass whose prompt nobody has counted
    assert cents_of(body) == Decimal("2.5")
    items, _ = bill(body)
    assert [(item.pass_index, item.component, item.quantity, item.note) for item in items] == [
        (0, "input", 1000, None),
        (0, "output", 100, None),
        (1, "output", 200, "uncounted_tokens"),
    ]


def test_a_compaction_after_output_leaves_the_first_counts_where_they_were():
    body = start() + text(740) + compaction(370, index=1) + text(740)
    items, _ = bill(body)
    assert [(item.pass_index, item.component, item.quantity, item.note) for item in items] == [
        (0, "output", 100, "uncounted_tokens"),
        (1, "input", 1000, None),
        (1, "output", 400, None),
    ]


def test_a_stream_cut_in_a_compaction_has_its_prompt():
    body = start() + block({"type": "compaction", "content": None})
    assert lines_of(body) == [(FABLE, "input", 1000, False, None), (FABLE, "output", 1, True, None)]


def test_a_model_that_took_over_after_a_compaction_has_a_prompt_that_nobody_knows():
    body = start() + compaction(370) + hop(FABLE, OPUS) + text(740)
    items, _ = bill(body)
    assert [(item.model, item.component, item.note) for item in items] == [
        (FABLE, "input", None),
        (FABLE, "output", None),
        (OPUS, "output", "uncounted_tokens"),
    ]


def test_advice_is_a_pass_of_the_model_that_the_request_names():
    body = start() + text(370) + advice(ADVICE) + text(210)
    # 1000 x 10 + 200 x 50 (580 characters, and 160 of the call of the tool), and 100 x 25: 22,500
    assert cents_of(body, REQUEST) == Decimal("2.25")
    items, _ = bill(body, REQUEST)
    assert [(item.model, item.component, item.quantity, item.note) for item in items] == [
        (OPUS, "output", 100, "uncounted_tokens"),
        (FABLE, "input", 1000, None),
        (FABLE, "output", 200, "uncounted_tokens"),
    ]


@pytest.mark.parametrize(
    ("content", "request_body"),
    [
        (ADVICE, b""),  # not kept
        (ADVICE, b'{"tools":[]}'),
        (ADVICE, b'{"tools":[{"type":"advisor_1","model":"a"},{"type":"advisor_1","model":"b"}]}'),
        ({"type": "advisor_redacted_result", "encrypted_content": "x" * 370}, REQUEST),
        ({"type": "advisor_tool_result_error", "error_code": "unavailable"}, REQUEST),
    ],
)
def test_advice_of_which_nothing_is_known_is_left_out_and_the_line_says_so(content, request_body):
    items, cents = bill(start() + text(370) + advice(content) + text(210), request_body)
    assert cents == 2
    assert [(item.model, item.component, item.quantity, item.note) for item in items] == [
        (FABLE, "input", 1000, None),
        (FABLE, "output", 200, "uncounted_tokens"),
    ]


def test_what_a_tool_of_upstream_gave_was_read_by_a_pass_that_nobody_has_counted():
    result = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {}}
    items, _ = bill(start() + text(370) + block(result, 1) + text(370))
    assert [item.note for item in items] == [None, "uncounted_tokens"]


def search(content, index=1):
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}
    return block(result, index)


def test_searches_that_gave_results_are_counted_by_these():
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    found = [{"type": "web_search_result", "url": "https://example.com"}]
    body = start() + text(370) + search(found) + search([], 2) + search(failed, 3) + text(370)
    # 1000 x 10 + 200 x 50, and two searches for a cent each
    assert cents_of(body) == 4
    assert lines_of(body)[-1] == (FABLE, "web_search", 2, True, None)


def test_searches_that_upstream_counted_are_not_counted_less():
    body = start(server_tool_use={"web_search_requests": 3}) + search([]) + text(370)
    assert lines_of(body)[-1][1:3] == ("web_search", 3)


@needs_recorded
@pytest.mark.parametrize(
    "name", ["llm_web_search", "ruby_websearch_stream", "pyd_pause_turn_stream"]
)
def test_recorded_searches_are_as_many_as_upstream_counted(name):
    body = (RECORDED / f"{name}.response.sse").read_bytes()
    whole = read_usage(200, None, body, is_complete=True)
    cut = body[: body.rindex(b"message_delta")]
    usage = read_usage(200, None, cut, is_complete=False)
    found = estimate_usage(usage, cut, lambda _: UNKNOWN_SIZE)
    assert usage.web_search_requests is None
    assert found.web_search_requests == whole.web_search_requests


@pytest.mark.parametrize("place", ["start", "delta"])
def test_a_pass_that_the_stream_had_listed_is_not_estimated(place):
    listed = {
        "iterations": [
            {"type": "compaction", "input_tokens": 9000, "output_tokens": 80},
            {"type": "advisor_message", "model": OPUS, "input_tokens": 2000, "output_tokens": 30},
            {"type": "message", "input_tokens": 1000, "output_tokens": 1},
        ]
    }
    content = compaction(370) + advice(ADVICE) + text(580)
    later = event("message_delta", delta={"stop_reason": None}, usage=listed)
    body = start(**listed) + content if place == "start" else start() + content + later
    # 9000 x 10 + 80 x 50, 2000 x 5 + 30 x 25, and 1000 x 10 + 200 x 50: 124,750
    assert cents_of(body, REQUEST) == Decimal("12.475")
    assert [line[:4] for line in lines_of(body, REQUEST)] == [
        (FABLE, "input", 9000, False),
        (FABLE, "output", 80, False),
        (OPUS, "input", 2000, False),
        (OPUS, "output", 30, False),
        (FABLE, "input", 1000, False),
        (FABLE, "output", 200, True),
    ]


def test_passes_beyond_those_that_the_stream_had_listed_are_estimated():
    listed = [
        {"type": "message", "model": FABLE, "input_tokens": 1010, "output_tokens": 40},
        {"type": "compaction", "input_tokens": 9000, "output_tokens": 80},
        {"type": "message", "model": OPUS, "input_tokens": 1000, "output_tokens": 1},
    ]
    body = start(iterations=listed) + text(370) + hop(FABLE, OPUS)
    body += compaction(370) + text(370) + compaction(740) + text(370)
    assert [line[:4] for line in lines_of(body)] == [
        (FABLE, "input", 1010, False),
        (FABLE, "output", 40, False),
        (OPUS, "input", 9000, False),
        (OPUS, "output", 80, False),
        (OPUS, "output", 200, True),  # the second compaction
        (OPUS, "input", 1000, False),
        (OPUS, "output", 200, True),
    ]


@needs_recorded
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        # Upstream counted 83 and 8; the prompt of 181 is not known before the end.
        (
            "pyd_compaction_cache_stream",
            [("input", 100), ("cache_read", 55_096), ("output", 81), ("output", 3)],
        ),
        # It counted 2543 + 18 of the advisor, and 1128 + 135 and 1283 + 10 of the model.
        ("pyd_advisor_stream", [("output", 12), ("input", 1128), ("output", 95)]),
    ],
)
def test_recorded_streams_that_are_cut_at_the_end_have_their_passes(name, lines):
    body = (RECORDED / f"{name}.response.sse").read_bytes()
    request = (RECORDED / f"{name}.request.json").read_bytes()
    items, _ = bill(body[: body.index(b"event: message_delta")], request)
    assert [(item.component, item.quantity) for item in items] == lines


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        b'data: {"type":"fallback"}\n\n',
        b'"fallback"',
        b'data: "compaction\n\n',
        compaction(0),
        advice(ADVICE),
        hop(FABLE, OPUS),
    ],
)
def test_millions_of_tiny_blocks_take_no_second(piece):
    body = start() + hop(FABLE, OPUS) + piece * (5_000_000 // len(piece))
    usage = read_usage(200, None, start() + hop(FABLE, OPUS) * 3, is_complete=False)
    with takes_less_than(1):
        estimate_usage(usage, body, lambda _: UNKNOWN_SIZE, REQUEST)
