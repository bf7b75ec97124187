import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from metering import output
from metering.token_counts import TokenCounts
from metering.usage import MAX_PASSES, Usage, read_usage
from tests.metering.responses import event
from tests.processor_time import takes_less_than
from wire.json_reading import MAX_COUNT, clean_text

SSE = "text/event-stream; charset=utf-8"
JSON = "application/json"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def start(model: str | None = "claude-opus-5", **usage: object) -> bytes:
    return event("message_start", message={"model": model, "usage": usage})


def delta(stop_reason: str | None = "end_turn", **usage: object) -> bytes:
    return event("message_delta", delta={"stop_reason": stop_reason}, usage=usage)


STOP = event("message_stop")
TEXT = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hi"})


def read(
    body: bytes,
    content_type: str | None = SSE,
    status: int = 200,
    complete=True,
    cache_ttl: str | None = None,
) -> Usage:
    return read_usage(status, content_type, body, is_complete=complete, cache_ttl=cache_ttl)


def counts_of(usage: Usage) -> tuple[int | None, ...]:
    tokens = usage.tokens
    return (
        tokens.input_tokens,
        tokens.output_tokens,
        tokens.cache_creation_input_tokens,
        tokens.cache_read_input_tokens,
    )


def test_a_stream_is_read_to_its_final_counts():
    usage = read(start(input_tokens=10, output_tokens=1) + TEXT + delta(output_tokens=20) + STOP)
    assert counts_of(usage) == (10, 20, None, None)
    assert (usage.model, usage.source, usage.streamed) == ("claude-opus-5", "final", True)
    assert (usage.stop_reason, usage.has_message_stop) == ("end_turn", True)


def test_a_delta_overrides_every_count_of_the_start():
    usage = read(
        start(
            input_tokens=1,
            output_tokens=2,
            cache_creation_input_tokens=3,
            cache_read_input_tokens=4,
        )
        + delta(
            input_tokens=5,
            output_tokens=6,
            cache_creation_input_tokens=7,
            cache_read_input_tokens=8,
        )
    )
    assert counts_of(usage) == (5, 6, 7, 8)


def test_a_delta_overrides_down_to_zero():
    body = start(input_tokens=9, output_tokens=1, cache_read_input_tokens=55096) + delta(
        input_tokens=0, output_tokens=0, cache_read_input_tokens=0
    )
    assert counts_of(read(body)) == (0, 0, None, 0)


def test_null_and_absent_counts_do_not_override():
    body = start(input_tokens=9, output_tokens=1, cache_read_input_tokens=7)
    body += delta(input_tokens=None, output_tokens=3)
    assert counts_of(read(body)) == (9, 3, None, 7)


def test_repeated_events_are_not_summed():
    body = start(input_tokens=17, output_tokens=1) * 2 + delta(output_tokens=9) * 2
    assert counts_of(read(body + start(input_tokens=17, output_tokens=1))) == (17, 9, None, None)


def test_a_later_delta_without_stop_reason_keeps_the_first_ones():
    usage = read(start(input_tokens=1) + delta("tool_use", output_tokens=2) + delta(None))
    assert (usage.stop_reason, usage.source) == ("tool_use", "final")


def test_a_whole_number_with_a_fraction_of_0_is_a_count():
    body = b'{"model":"m","usage":{"input_tokens":1000.0,"output_tokens":1e2}}'
    tokens = read_usage(200, "application/json", body, is_complete=True).tokens
    assert (tokens.input_tokens, tokens.output_tokens) == (1000, 100)


@pytest.mark.parametrize("bad", [-1, True, "12", 1.5, MAX_COUNT + 1, [], {}, 10**30])
def test_what_cannot_be_a_count_is_treated_as_absent(bad):
    usage = read(start(input_tokens=bad, output_tokens=4) + delta(output_tokens=bad))
    assert counts_of(usage) == (None, 4, None, None)


def test_a_count_that_is_not_a_number_does_not_cost_the_others():
    body = b'{"model":"m","usage":{"input_tokens":NaN,"output_tokens":5}}'
    assert counts_of(read(body, JSON)) == (None, 5, None, None)


@pytest.mark.parametrize(
    ("total", "split", "expected"),
    [
        (100, {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}, (100, 40)),
        (100, {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, (100, 0)),
        (100, None, (100, 0)),
        (100, {"ephemeral_1h_input_tokens": 300}, (100, 100)),
        (100, {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": "x"}, (100, 0)),
        (0, {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 5}, (0, 0)),
        (None, {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 6}, (11, 6)),
    ],
)
def test_the_total_of_a_cache_write_rules_its_split(total, split, expected):
    usage = read(start(cache_creation_input_tokens=total, cache_creation=split))
    writes = usage.tokens.cache_creation_input_tokens
    assert (writes, usage.cache_write_1h_tokens) == expected


def test_a_split_that_is_stale_by_the_end_gives_way_to_the_new_total():
    body = start(
        cache_creation_input_tokens=3068, cache_creation={"ephemeral_5m_input_tokens": 3068}
    ) + delta(cache_creation_input_tokens=3337, output_tokens=1)
    usage = read(body)
    assert (usage.tokens.cache_creation_input_tokens, usage.cache_write_1h_tokens) == (3337, 0)


SPLIT = {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}


@pytest.mark.parametrize(
    ("split", "total", "ttl", "one_hour"),
    [
        (SPLIT, 130, None, 40),  # what is known stays; five minutes are the default
        (SPLIT, 130, "5m", 40),
        (SPLIT, 130, "1h", 70),  # the growth follows the request
        (SPLIT, 100, "1h", 40),
        (SPLIT, 30, "1h", 30),
        ({"ephemeral_5m_input_tokens": 100}, 130, "1h", 30),
        (None, 130, "1h", 130),
        (None, 130, "5m", 0),
    ],
)
def test_writes_that_were_counted_late_are_kept_as_long_as_the_request_asks(
    split, total, ttl, one_hour
):
    body = start(cache_creation_input_tokens=100, cache_creation=split) + delta(
        cache_creation_input_tokens=total, output_tokens=1
    )
    usage = read(body, cache_ttl=ttl)
    assert usage.tokens.cache_creation_input_tokens == total
    assert usage.cache_write_1h_tokens == one_hour


@pytest.mark.parametrize(
    ("split", "top", "ttl", "one_hour"),
    [
        (SPLIT, SPLIT, None, 40),  # its own
        (SPLIT, None, None, 40),
        (SPLIT, {"ephemeral_1h_input_tokens": 200}, None, 40),
        (None, {"ephemeral_1h_input_tokens": 200}, None, 100),  # that of the call
        (None, {"ephemeral_5m_input_tokens": 200}, "1h", 0),
        (None, {"ephemeral_5m_input_tokens": 120, "ephemeral_1h_input_tokens": 80}, None, 40),
        (None, None, "1h", 100),  # that of the request
        (None, None, None, 0),
    ],
)
def test_a_pass_without_a_split_has_that_of_the_call(split, top, ttl, one_hour):
    item = {"type": "message", "cache_creation_input_tokens": 100, "cache_creation": split}
    usage = {
        "cache_creation_input_tokens": 200,
        "cache_creation": top,
        "iterations": [item, {"type": "message", "cache_creation_input_tokens": 100}],
    }
    body = json.dumps({"type": "message", "usage": usage}).encode()
    assert read(body, JSON, cache_ttl=ttl).passes[0].cache_write_1h_tokens == one_hour


PASSES = [
    {"type": "compaction", "input_tokens": 9, "output_tokens": 5},
    {"type": "message", "input_tokens": 10, "output_tokens": 1},
]
NEWER = [PASSES[0], {"type": "message", "input_tokens": 10, "output_tokens": 20}]


@pytest.mark.parametrize(
    ("body", "output_tokens", "is_stale"),
    [
        (start(input_tokens=10, output_tokens=1, iterations=PASSES), 1, False),
        (start(input_tokens=10, iterations=PASSES) + delta(output_tokens=20), 20, True),
        (start(output_tokens=1, iterations=PASSES) + delta(output_tokens=1), 1, False),
        (
            start(output_tokens=1, iterations=PASSES) + delta(output_tokens=20, iterations=NEWER),
            20,
            False,
        ),
        (delta(output_tokens=1, iterations=PASSES) + delta(None, output_tokens=20), 20, True),
        (delta(output_tokens=1) + delta(None, output_tokens=20, iterations=NEWER), 20, False),
        (delta(output_tokens=20, iterations=NEWER) + delta(None), 20, False),
        (start(output_tokens=1) + delta(output_tokens=20), 20, False),
    ],
)
def test_a_list_of_passes_is_stale_when_later_counts_differ(body, output_tokens, is_stale):
    usage = read(body)
    assert (usage.tokens.output_tokens, usage.passes_are_stale) == (output_tokens, is_stale)


@pytest.mark.parametrize("content_type", [JSON, SSE])
def test_the_category_of_a_refusal_is_read(content_type):
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    stop = {"stop_reason": "refusal", "stop_details": details}
    if content_type == JSON:
        body = json.dumps({"type": "message", "content": [], "usage": {}, **stop}).encode()
    else:
        body = start() + event("message_delta", delta=stop, usage={})
    usage = read(body, content_type)
    assert (usage.stop_reason, usage.refusal_category, usage.is_empty) == ("refusal", "cyber", True)


def test_the_content_of_ordinary_responses_is_not_looked_at(monkeypatch):
    looked_at: list[object] = []

    def look(*args: object) -> list[bool]:
        looked_at.append(args)
        return [False]

    monkeypatch.setattr(output, "find_outputs", look)
    read(WHOLE)
    read(b'{"type":"message","content":[],"usage":{"input_tokens":1}}', JSON)
    assert looked_at == []
    read(start() + delta("refusal"))
    assert len(looked_at) == 1


def test_the_side_fields_come_from_wherever_they_are_named():
    usage = read(
        start(service_tier="batch", inference_geo="us", speed="fast", input_tokens=1)
        + delta(server_tool_use={"web_search_requests": 3}, output_tokens=1)
    )
    assert (usage.service_tier, usage.inference_geo, usage.speed) == ("batch", "us", "fast")
    assert usage.web_search_requests == 3


def test_iterations_keep_their_own_type_model_and_counts():
    usage = read(
        delta(
            output_tokens=1,
            iterations=[
                {"type": "message", "input_tokens": 3, "output_tokens": 4},
                {
                    "type": "advisor_message",
                    "model": "claude-opus-4-8",
                    "input_tokens": 5,
                    "cache_creation_input_tokens": 6,
                    "cache_creation": {"ephemeral_1h_input_tokens": 6},
                },
                {"type": "empty"},
                "noise",
            ],
        )
    )
    first, second = usage.passes
    assert (first.type, first.model, first.tokens.output_tokens) == ("message", None, 4)
    assert second.model == "claude-opus-4-8"
    assert second.tokens == TokenCounts(input_tokens=5, cache_creation_input_tokens=6)
    assert second.cache_write_1h_tokens == 6


def test_the_last_model_named_is_the_model():
    block = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
    body = start("a", input_tokens=1) + event("content_block_start", content_block=block)
    assert read(body).model == "b"


@pytest.mark.parametrize(("count", "passes"), [(MAX_PASSES, MAX_PASSES), (200_000, 0)])
def test_more_passes_than_any_call_has_are_not_read(count, passes):
    usage = {"input_tokens": 7, "iterations": [{"input_tokens": 1}] * count}
    found = read_usage(200, None, json.dumps({"usage": usage}).encode(), is_complete=True)
    assert (len(found.passes), found.tokens.input_tokens) == (passes, 7)


@pytest.mark.slow
@pytest.mark.parametrize("holder", ["usage", "usage.cache_creation"])
@pytest.mark.parametrize("make", [start, delta])
def test_what_one_event_says_makes_later_ones_no_slower(make, holder):
    many = {f"key_{number}": number for number in range(60_000)}
    usage = many if holder == "usage" else {"cache_creation": many}
    body = make(input_tokens=1, **usage) + make(output_tokens=2, cache_creation={}) * 3_000
    # A tenth of that, but some seconds where each event copies what the first one said.
    with takes_less_than(0.6):
        found = read(body)
    assert counts_of(found) == (1, 2, None, None)


def test_text_about_fallbacks_names_no_model():
    block = {"type": "text", "text": "fallback", "to": {"model": "b"}}
    body = start("a") + event("content_block_start", content_block=block)
    assert read(body).model == "a"


def test_text_that_imitates_an_event_counts_nothing():
    fake = 'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":999}}\n\n'
    body = start(input_tokens=1, output_tokens=1) + event(
        "content_block_delta", delta={"type": "text_delta", "text": f"\n\n{fake}"}
    )
    assert counts_of(read(body)) == (1, 1, None, None)


def test_the_type_in_the_data_rules_the_name_of_the_event():
    body = b'event: ping\ndata: {"type":"message_delta","usage":{"output_tokens":2}}\n\n'
    assert read(body).tokens.output_tokens == 2
    body = b'event: message_delta\ndata: {"usage":{"output_tokens":3}}\n\n'
    assert read(body).tokens.output_tokens == 3


@pytest.mark.parametrize(
    ("body", "complete", "source"),
    [
        (b"", True, "none"),
        (start(), True, "none"),
        (start(input_tokens=1, output_tokens=1), True, "partial"),
        (start(input_tokens=1) + delta(None, output_tokens=2), True, "partial"),
        (start(input_tokens=1) + delta(output_tokens=2), True, "final"),
        (start(input_tokens=1) + delta(output_tokens=2), False, "partial"),
        (start(input_tokens=1) + delta(output_tokens=2) + STOP, False, "final"),
    ],
)
def test_the_source_says_how_far_the_counts_can_be_trusted(body, complete, source):
    assert read(body, complete=complete).source == source


@pytest.mark.parametrize(
    ("content_type", "body", "streamed"),
    [
        ("text/event-stream", b"", True),
        ("Text/Event-Stream;charset=utf-8", b"{}", True),
        ("application/json", STOP, False),
        (None, STOP, True),
        ("", STOP, True),
        (None, b'{"type":"message"}', False),
    ],
)
def test_the_content_type_decides_whether_it_streamed(content_type, body, streamed):
    assert read(body, content_type).streamed is streamed


@pytest.mark.parametrize("content_type", [JSON, SSE, None])
def test_a_json_answer_is_read_whatever_it_is_called(content_type):
    body = json.dumps(
        {
            "type": "message",
            "model": "claude-haiku-4-5",
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 4, "service_tier": "standard"},
        },
        indent=2,
    )
    usage = read(b"\n " + body.encode(), content_type)
    assert counts_of(usage) == (3, 4, None, None)
    assert (usage.model, usage.source, usage.has_error) == ("claude-haiku-4-5", "final", False)


def test_a_json_answer_in_another_charset_still_counts():
    body = b'{"model":"m","content":"\xe9\xff","usage":{"input_tokens":3}}'
    assert read(body, JSON).tokens.input_tokens == 3


ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (529, JSON, json.dumps(ERROR).encode()),
        (200, JSON, json.dumps(ERROR).encode()),
        (529, SSE, json.dumps(ERROR).encode()),
        (529, SSE, event("error", error=ERROR["error"])),
        (200, SSE, start(input_tokens=1) + event("error", error=ERROR["error"])),
        (200, SSE, b'event: error\ndata: {"error":{"type":"overloaded_error"}}\n\n'),
        (503, None, b'{"error":{"type":"overloaded_error"}}'),
    ],
)
def test_the_type_of_an_error_is_found(status, content_type, body):
    usage = read(body, content_type, status)
    assert (usage.has_error, usage.error_type) == (True, "overloaded_error")


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (502, "text/html", b"<html><h1>502 Bad Gateway</h1></html>"),
        (503, None, b""),
        (400, JSON, b'{"error":"text"}'),
        (400, JSON, b'{"error":{"type":7}}'),
        (400, JSON, b"[" * 50_000),
    ],
)
def test_an_error_without_a_type_has_none(status, content_type, body):
    usage = read(body, content_type, status)
    assert (usage.error_type, usage.source, usage.model) == (None, "none", None)


def test_an_error_event_that_is_not_json_is_an_error_nonetheless():
    usage = read(start() + b"event: error\ndata: upstream went away\n\n")
    assert (usage.has_error, usage.error_type) == (True, None)


def test_usage_nested_deeply_does_no_harm():
    depth = 900
    nested = b'{"cache_creation":' * depth + b"1" + b"}" * depth
    assert read(b'{"usage":' + nested + b"}", JSON).source == "none"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", None),
        (None, None),
        (7, None),
        ("a\0b", "a\ufffdb"),
        ("\ud800x", "?x"),
        ("é" * 500, "é" * 200),
    ],
)
def test_texts_are_made_fit_for_a_row(value, text):
    assert clean_text(value) == text


WHOLE = (
    start(input_tokens=10, output_tokens=1, cache_creation_input_tokens=5)
    + TEXT
    + delta(output_tokens=20, iterations=[{"type": "message", "input_tokens": 10}])
    + STOP
)


@given(st.integers(0, len(WHOLE)), st.booleans())
def test_a_stream_cut_anywhere_gives_nothing_that_was_not_said(cut, crlf):
    body = WHOLE.replace(b"\n", b"\r\n") if crlf else WHOLE
    usage = read(body[:cut], complete=False)
    assert usage.tokens.input_tokens in (None, 10)
    assert usage.tokens.output_tokens in (None, 1, 20)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("type", "usage", "message", "model", "delta", "error", "iterations", "to"),
                    *("input_tokens", "cache_creation", "server_tool_use", "content_block"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=200), st.sampled_from([None, SSE, JSON]), st.sampled_from([200, 500]))
def test_no_bytes_make_it_raise(body, content_type, status):
    read(body, content_type, status)
    read(b"data: {" + body + b"}message_\n\n", content_type, status)


@given(
    json_values,
    st.sampled_from(["message_start", "message_delta", "content_block_start", "error"]),
)
def test_no_json_makes_it_raise(value, kind):
    document = {"type": kind, "message": value, "usage": value, "delta": value, "error": value}
    document["content_block"] = value
    body = json.dumps(document).encode()
    read(body, JSON)
    read(b"event: message_\ndata: " + body + b"\n\n")
