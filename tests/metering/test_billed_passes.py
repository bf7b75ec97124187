"""Every line of what the vendor says about billing, for documents and streams.

Costs are worked out by hand, in cents: tokens x US dollars per million / 10,000. The rates are 10 and 50
(input and output) for claude-fable-5, 5 and 25 for claude-opus-4-8 and claude-opus-5."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from metering.billed_passes import make_call, may_be_billed
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.usage import MAX_PASSES
from tests.metering.responses import (
    KINDS,
    NOW,
    fallback_block,
    make_body,
    make_call_of,
    read,
    text_block,
)
from tests.processor_time import takes_less_than
from wire.envelope import MAX_FALLBACKS

FABLE, OPUS, OPUS_5 = "claude-fable-5", "claude-opus-4-8", "claude-opus-5"
BEFORE = datetime(2026, 9, 23, 12, tzinfo=UTC)
EMPTY_TEXT = text_block("")
PRICES = PriceTable()
UNBILLED = ("cyber", "general_harms", None)
BILLED = ("bio", "frontier_llm", "reasoning_extraction")

both = pytest.mark.parametrize("kind", KINDS)


def counts(input_tokens: int, output_tokens: int, **fields: object) -> dict[str, object]:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, **fields}


def a_pass(type: str, model: str | None, input_tokens: int, output_tokens: int, **fields: object):
    named = {} if model is None else {"model": model}
    return {"type": type, **named, **counts(input_tokens, output_tokens), **fields}


def make_usage(*passes, **fields):
    """The usage of a response with these passes, whose counts are those of the last one."""
    last = passes[-1]
    return counts(last["input_tokens"], last["output_tokens"], iterations=passes, **fields)


SERVED = a_pass("fallback_message", OPUS, 412, 264)


def bill(kind, content, usage, at=NOW, *, status=200, **fields):
    found = read(kind, make_body(kind, content, usage, **fields), status=status)
    return price_call(make_call_of(found, at, status=status), PRICES)


def cents_of(*args, **fields):
    return bill(*args, **fields)[1]


def lines_of(*args, **fields):
    items, _ = bill(*args, **fields)
    return [
        (item.pass_index, item.model, item.component, item.quantity, item.unbilled_reason)
        for item in items
    ]


# --- refusals


@both
@pytest.mark.parametrize("content", [[], [EMPTY_TEXT]])
@pytest.mark.parametrize("output", [0, 1])
@pytest.mark.parametrize("category", UNBILLED)
def test_a_refusal_before_output_is_free_in_most_categories(kind, category, content, output):
    usage = counts(1000, output)
    items, cents = bill(kind, content, usage, stop_reason="refusal", category=category)
    assert cents == 0
    assert {item.unbilled_reason for item in items} == {"refused_before_output"}
    assert {(item.multiplier, item.cents) for item in items} == {(0, 0)}
    assert items[0].quantity == 1000


@both
@pytest.mark.parametrize("category", BILLED)
def test_a_refusal_before_output_is_billed_for_input_in_some_categories(kind, category):
    usage = counts(1000, 1, cache_read_input_tokens=2000)
    refusal = {"stop_reason": "refusal", "category": category}
    # 1000 x 10 + 2000 x 1 = 12,000 -> 1.2 cents; the token of output is none
    assert cents_of(kind, [], usage, **refusal) == Decimal("1.2")
    assert lines_of(kind, [], usage, **refusal) == [
        (0, FABLE, "input", 1000, None),
        (0, FABLE, "cache_read", 2000, None),
        (0, FABLE, "output", 1, "refused_before_output"),
    ]


@both
@pytest.mark.parametrize("category", BILLED)
def test_a_refusal_before_output_was_free_before_its_category_was_billed(kind, category):
    usage = counts(1000, 1)
    assert cents_of(kind, [], usage, BEFORE, stop_reason="refusal", category=category) == 0


@both
@pytest.mark.parametrize("category", [*UNBILLED, *BILLED])
@pytest.mark.parametrize(
    "block",
    [
        text_block("I"),
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
    ],
)
def test_a_refusal_after_output_began_is_billed_as_any_call(kind, category, block):
    usage = counts(1000, 40)
    # 1000 x 10 + 40 x 50 = 12,000
    found = cents_of(kind, [block], usage, stop_reason="refusal", category=category)
    assert found == Decimal("1.2")


@both
def test_a_response_without_content_that_is_no_refusal_is_billed(kind):
    assert cents_of(kind, [], counts(1000, 1)) == Decimal("1.005")  # 1000 x 10 + 1 x 50


@both
def test_a_refusal_by_a_model_without_a_price_is_free_and_not_unknown(kind):
    refusal = {"stop_reason": "refusal", "category": "cyber", "model": "claude-unknown-9"}
    assert cents_of(kind, [], counts(1000, 0), **refusal) == 0
    assert cents_of(kind, [], counts(1000, 0), **(refusal | {"category": "bio"})) is None


# --- fallbacks


@both
@pytest.mark.parametrize("category", UNBILLED)
def test_a_model_that_declined_before_output_is_free_in_most_categories(kind, category):
    usage = make_usage(a_pass("message", FABLE, 535, 1), SERVED)
    content = [fallback_block(FABLE, OPUS, category), text_block()]
    # 412 x 5 + 264 x 25 = 8,660
    assert cents_of(kind, content, usage, model=OPUS) == Decimal("0.866")
    assert lines_of(kind, content, usage, model=OPUS) == [
        (0, FABLE, "input", 535, "declined_hop"),
        (0, FABLE, "output", 1, "declined_hop"),
        (1, OPUS, "input", 412, None),
        (1, OPUS, "output", 264, None),
    ]


@both
@pytest.mark.parametrize("category", BILLED)
@pytest.mark.parametrize(("at", "cents"), [(NOW, "1.401"), (BEFORE, "0.866")])
def test_a_model_that_declined_is_billed_for_input_by_its_own_category(kind, category, at, cents):
    usage = make_usage(a_pass("message", FABLE, 535, 1), SERVED)
    content = [fallback_block(FABLE, OPUS, category), text_block()]
    # 535 x 10 = 5,350 more than 8,660, since 2026-09-24
    assert cents_of(kind, content, usage, at, model=OPUS) == Decimal(cents)


def test_a_model_that_declined_in_mid_stream_is_billed():
    usage = make_usage(a_pass("message", FABLE, 400, 20), SERVED)
    content = [text_block("The first"), fallback_block(FABLE, OPUS, "cyber"), text_block()]
    # 400 x 10 + 20 x 50 = 5,000 more than 8,660
    assert cents_of("stream", content, usage) == Decimal("1.366")


def test_a_document_leaves_out_what_a_model_wrote_before_it_declined():
    usage = make_usage(a_pass("message", FABLE, 400, 20), SERVED)
    content = [fallback_block(FABLE, OPUS, "cyber"), text_block()]
    assert cents_of("document", content, usage, model=OPUS) == Decimal("1.366")


def test_in_a_stream_the_content_alone_tells_whether_output_began():
    usage = make_usage(a_pass("message", FABLE, 400, 20), SERVED)
    content = [fallback_block(FABLE, OPUS, "cyber"), text_block()]
    assert cents_of("stream", content, usage, model=OPUS) == Decimal("0.866")


@both
def test_a_single_pass_is_that_of_the_model_that_served(kind):
    usage = make_usage(a_pass("message", None, 412, 264))
    content = [fallback_block(FABLE, OPUS, "cyber"), text_block()]
    assert cents_of(kind, content, usage, model=OPUS) == Decimal("0.866")


@both
def test_the_earlier_turns_of_the_serving_model_are_billed(kind):
    """They are of the type of a model that declined."""
    usage = counts(
        900,
        100,
        iterations=[
            a_pass("message", FABLE, 535, 0),
            a_pass("message", OPUS, 300, 0),
            a_pass("message", OPUS, 310, 40),
            a_pass("fallback_message", OPUS, 320, 60),
        ],
    )
    content = [
        fallback_block(FABLE, OPUS, "cyber"),
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        text_block(),
    ]
    # (300 + 310 + 320) x 5 + (40 + 60) x 25 = 7,150
    assert cents_of(kind, content, usage, model=OPUS) == Decimal("0.715")
    reasons = [line[-1] for line in lines_of(kind, content, usage, model=OPUS)]
    assert reasons == ["declined_hop", None, None, None, None, None]


@both
def test_each_hop_of_a_chain_is_billed_by_its_own_trigger(kind):
    usage = make_usage(
        a_pass("message", FABLE, 100, 1),
        a_pass("message", OPUS, 200, 1),
        a_pass("fallback_message", OPUS_5, 300, 50),
    )
    content = [
        fallback_block(FABLE, OPUS, "cyber"),
        fallback_block(OPUS, OPUS_5, "bio"),
        text_block(),
    ]
    # 200 x 5 of the one that declined for bio, 300 x 5 + 50 x 25: 3,750
    assert cents_of(kind, content, usage, model=OPUS_5) == Decimal("0.375")
    assert [line[-1] for line in lines_of(kind, content, usage, model=OPUS_5)] == [
        "declined_hop",
        "declined_hop",
        None,
        "declined_hop",
        None,
        None,
    ]


@both
@pytest.mark.parametrize("names", [(None, None, None), ("gateway/a", "gateway/b", "gateway/c")])
def test_passes_by_other_names_are_those_of_the_chain_in_order(kind, names):
    types = ("message", "message", "fallback_message")
    listed = [
        a_pass(type, name, 100, output)
        for type, name, output in zip(types, names, (1, 1, 50), strict=True)
    ]
    content = [
        fallback_block(FABLE, OPUS, "cyber"),
        fallback_block(OPUS, OPUS_5, "bio"),
        text_block(),
    ]
    lines = lines_of(kind, content, counts(100, 50, iterations=listed), model=OPUS_5)
    reasons = [line[-1] for line in lines]
    assert reasons == ["declined_hop", "declined_hop", None, "declined_hop", None, None]


@both
@pytest.mark.parametrize(("category", "cents"), [("cyber", "0"), ("bio", "0.206")])
def test_the_last_hop_of_a_chain_that_declines_entirely_is_a_refusal(kind, category, cents):
    usage = make_usage(a_pass("message", FABLE, 535, 1), a_pass("fallback_message", OPUS, 412, 1))
    content = [fallback_block(FABLE, OPUS, "cyber")]
    refusal = {"stop_reason": "refusal", "category": category, "model": OPUS}
    assert cents_of(kind, content, usage, **refusal) == Decimal(cents)  # 412 x 5 = 2,060
    assert [line[-1] for line in lines_of(kind, content, usage, **refusal)] == [
        "declined_hop",
        "declined_hop",
        None if category == "bio" else "refused_before_output",
        "refused_before_output",
    ]


@both
def test_a_turn_that_is_routed_to_the_fallback_at_once_is_billed(kind):
    """Nobody declined that turn: there is no block."""
    usage = make_usage(SERVED)
    assert cents_of(kind, [text_block()], usage, model=OPUS) == Decimal("0.866")


@both
def test_a_model_that_was_asked_by_an_alias_is_known_by_its_full_name(kind):
    usage = make_usage(a_pass("message", "claude-fable-5-20260609", 535, 0), SERVED)
    content = [fallback_block(FABLE, OPUS, "cyber"), text_block()]
    reasons = [line[-1] for line in lines_of(kind, content, usage, model=OPUS)]
    assert reasons == ["declined_hop", None, None]


@both
def test_a_pass_without_a_model_has_that_of_its_place_in_the_chain(kind):
    usage = make_usage(
        a_pass("compaction", None, 9000, 100),
        a_pass("message", None, 535, 0),
        SERVED,
    )
    content = [fallback_block(FABLE, OPUS, "cyber"), text_block()]
    assert lines_of(kind, content, usage, model=OPUS) == [
        (0, FABLE, "input", 9000, None),
        (0, FABLE, "output", 100, None),
        (1, FABLE, "input", 535, "declined_hop"),
        (2, OPUS, "input", 412, None),
        (2, OPUS, "output", 264, None),
    ]


@both
def test_a_fallback_without_a_list_of_passes_is_billed_as_the_model_that_served(kind):
    content = [fallback_block(FABLE, OPUS), text_block()]
    found = lines_of(kind, content, counts(25, 8), model=OPUS)
    assert found == [(0, OPUS, "input", 25, None), (0, OPUS, "output", 8, None)]


# --- advice, compaction, speed


@both
def test_compaction_and_advice_are_billed_also_when_the_answer_is_refused(kind):
    usage = make_usage(
        a_pass("compaction", FABLE, 9000, 100),
        a_pass("advisor_message", OPUS, 1000, 200),
        a_pass("message", FABLE, 600, 0),
    )
    # 9000 x 10 + 100 x 50 + 1000 x 5 + 200 x 25 = 105,000
    found = cents_of(kind, [], usage, stop_reason="refusal", category="cyber")
    assert found == Decimal("10.5")


@both
def test_an_advisor_has_not_the_fast_price_of_the_answer(kind):
    usage = make_usage(
        a_pass("advisor_message", OPUS, 1000, 200),
        a_pass("message", None, 1000, 100),
        speed="fast",
    )
    # the advisor 1000 x 5 + 200 x 25 = 10,000; the answer, fast, 1000 x 10 + 100 x 50 = 15,000
    items, cents = bill(kind, [text_block()], usage, model=OPUS_5)
    assert cents == Decimal("2.5")
    assert [item.speed for item in items] == [None, None, "fast", "fast"]


@both
def test_a_pass_that_names_its_speed_has_the_price_of_it(kind):
    usage = make_usage(
        a_pass("message", OPUS_5, 1000, 0, speed="standard"),
        a_pass("message", OPUS_5, 1000, 100),
        speed="fast",
    )
    # 1000 x 5 + 1000 x 10 + 100 x 50 = 20,000
    assert cents_of(kind, [text_block()], usage, model=OPUS_5) == Decimal(2)


@pytest.mark.parametrize(
    ("listed", "content", "prompt", "cents"),
    [
        # 9000 x 5 + 100 x 25 of the compaction, and the newer 1000 x 5 + 100 x 25: 55,000
        (
            [a_pass("compaction", OPUS, 9000, 100), a_pass("message", OPUS, 1000, 1)],
            [],
            1000,
            "5.5",
        ),
        # 535 x 10 of the model that declined for bio, and 7,500
        (
            [a_pass("message", FABLE, 535, 1), a_pass("fallback_message", OPUS, 1000, 1)],
            [fallback_block(FABLE, OPUS, "bio")],
            1000,
            "1.285",
        ),
        # two turns of one model, whose sum grew: 3000 x 5 + 100 x 25 = 17,500
        ([a_pass("message", OPUS, 1000, 1), a_pass("message", OPUS, 2000, 1)], [], 3000, "1.75"),
    ],
)
def test_a_list_of_passes_that_is_older_than_the_counts_keeps_what_these_leave_out(
    listed, content, prompt, cents
):
    at_start = counts(prompt, 1, iterations=listed)
    body = make_body("stream", [*content, text_block()], counts(prompt, 100), model=OPUS)
    listing = json.dumps({"type": "message_start", "message": {"model": OPUS, "usage": at_start}})
    usage = read("stream", f"data: {listing}\n\n".encode() + body.split(b"\n\n", 1)[1])
    assert usage.passes_are_stale
    assert price_call(make_call_of(usage), PRICES)[1] == Decimal(cents)


@both
def test_a_hop_on_another_model_has_not_the_fast_price_of_the_answer(kind):
    usage = make_usage(
        a_pass("message", FABLE, 535, 0),
        a_pass("fallback_message", OPUS_5, 412, 264),
        speed="fast",
    )
    content = [fallback_block(FABLE, OPUS_5, "bio"), text_block()]
    # fable-5 has no fast price: 535 x 10. The answer, fast: 412 x 10 + 264 x 50. 22,670
    assert cents_of(kind, content, usage, model=OPUS_5) == Decimal("2.267")


# --- calls that fail


@pytest.mark.parametrize("status", [400, 429, 500, 529])
@both
def test_an_error_with_counts_and_without_output_is_free(kind, status):
    items, cents = bill(kind, [], counts(1000, 1), status=status)
    assert (cents, {item.unbilled_reason for item in items}) == (0, {"failed"})


@both
def test_an_error_status_with_output_is_billed(kind):
    assert cents_of(kind, [text_block()], counts(1000, 40), status=500) == Decimal("1.2")


# --- counts that are missing


@both
@pytest.mark.parametrize(
    ("usage", "missing"),
    [
        ({"output_tokens": 20}, ["input"]),
        ({"output_tokens": 0}, ["input"]),
        ({"input_tokens": -1, "output_tokens": 20}, ["input"]),
        ({"input_tokens": "10", "output_tokens": 20}, ["input"]),
        ({"cache_read_input_tokens": 10, "output_tokens": 20}, ["input"]),
        (counts(100, 20, iterations=[{"type": "message", "output_tokens": 20}]), ["input"]),
    ],
)
def test_a_call_of_which_a_count_is_missing_has_no_known_cost(kind, usage, missing):
    items, cents = bill(kind, [text_block()], usage)
    assert cents is None
    unknown = [item for item in items if item.cents is None]
    assert [(item.component, item.quantity, item.note) for item in unknown] == [
        (component, 0, "count_missing") for component in missing
    ]
    assert all(item.rate_usd is None and item.multiplier is None for item in unknown)


def test_a_document_without_a_count_of_its_output_has_no_known_cost():
    items, cents = bill("document", [text_block()], {"input_tokens": 100})
    assert cents is None
    assert [(item.component, item.cents, item.note) for item in items] == [
        ("input", Decimal("0.1"), None),
        ("output", None, "count_missing"),
    ]


@both
def test_a_count_of_the_cache_may_be_left_out(kind):
    assert cents_of(kind, [text_block()], counts(100, 20)) == Decimal("0.2")


@both
def test_what_is_not_billed_is_free_whether_it_was_counted_or_not(kind):
    refusal = {"stop_reason": "refusal", "category": "cyber"}
    assert cents_of(kind, [], {"output_tokens": 1}, **refusal) == 0
    assert cents_of(kind, [], {"output_tokens": 1}, status=500) == 0


@both
def test_a_refusal_that_is_billed_for_an_input_that_was_not_counted_has_no_known_cost(kind):
    refusal = {"stop_reason": "refusal", "category": "bio"}
    assert cents_of(kind, [], {"output_tokens": 1}, **refusal) is None


# --- sums


@both
@pytest.mark.parametrize(
    ("input_tokens", "tools", "note"),
    [
        (150_000, {"web_search_requests": 2}, "sum_of_passes"),
        (150_000, {"web_fetch_requests": 2}, "sum_of_passes"),
        (150_000, {}, None),
        (100_000, {"web_search_requests": 2}, None),
    ],
)
def test_a_large_prompt_that_is_a_sum_of_unlisted_passes_is_noted(kind, input_tokens, tools, note):
    usage = counts(input_tokens, 10, server_tool_use=tools)
    items, _ = bill(kind, [text_block()], usage, model="claude-haiku-5-5")
    assert [item.note for item in items if item.component != "web_search"] == [note, note]


@both
def test_a_tool_that_ran_upstream_makes_a_sum_too(kind):
    tool = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    items, _ = bill(kind, [tool, text_block()], counts(150_000, 10), model="claude-haiku-5-5")
    assert {item.note for item in items} == {"sum_of_passes"}


@both
def test_listed_passes_are_no_sum(kind):
    passes = [a_pass("message", None, 75_000, 5), a_pass("message", None, 75_000, 5)]
    usage = counts(150_000, 10, server_tool_use={"web_search_requests": 1}, iterations=passes)
    items, _ = bill(kind, [text_block()], usage, model="claude-haiku-5-5")
    assert {item.note for item in items} == {None}


@both
def test_searches_are_on_the_bill_of_the_pass_that_served(kind):
    passes = [a_pass("advisor_message", OPUS, 10, 5), a_pass("message", None, 20, 5)]
    usage = make_usage(*passes, server_tool_use={"web_search_requests": 1})
    assert lines_of(kind, [text_block()], usage)[-1] == (1, FABLE, "web_search", 1, None)


@both
def test_the_searches_of_a_model_that_declined_after_them_are_billed_when_the_last_one_refuses(
    kind,
):
    passes = [a_pass("message", FABLE, 535, 30), a_pass("message", OPUS, 412, 0)]
    usage = make_usage(*passes, server_tool_use={"web_search_requests": 2})
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    content = [search, fallback_block(FABLE, OPUS, "cyber")]
    refusal = {"model": OPUS, "stop_reason": "refusal", "category": "cyber"}
    # 535 x 10 + 30 x 50 = 6,850, and two searches for a cent each
    assert cents_of(kind, content, usage, **refusal) == Decimal("2.685")
    assert lines_of(kind, content, usage, **refusal)[-1] == (0, FABLE, "web_search", 2, None)


@both
def test_searches_are_free_where_every_model_declined_before_any_output(kind):
    usage = counts(412, 0, server_tool_use={"web_search_requests": 1})
    content = [fallback_block(FABLE, OPUS, "cyber")]
    refusal = {"model": OPUS, "stop_reason": "refusal", "category": "cyber"}
    assert cents_of(kind, content, usage, **refusal) == 0
    assert lines_of(kind, content, usage, **refusal)[-1][-1] == "refused_before_output"


# --- any response

models = st.sampled_from([FABLE, OPUS, OPUS_5, "claude-unknown-9", None])
categories = st.sampled_from([*UNBILLED, *BILLED, "other"])
passes = st.builds(
    a_pass,
    st.sampled_from(["message", "fallback_message", "compaction", "advisor_message", "new"]),
    models,
    st.integers(0, 10_000),
    st.integers(0, 100),
)
blocks = st.one_of(
    st.just(EMPTY_TEXT),
    st.just(text_block()),
    st.builds(fallback_block, models, models, categories),
)


@given(
    st.sampled_from(KINDS),
    st.lists(blocks, max_size=MAX_FALLBACKS + 2),
    st.lists(passes, max_size=6),
    st.sampled_from(["end_turn", "refusal"]),
    categories,
    st.sampled_from([BEFORE, NOW]),
)
def test_every_count_of_every_pass_is_on_the_bill_once(
    kind, content, listed, stop_reason, category, at
):
    usage = counts(700, 70, iterations=listed)
    found = read(kind, make_body(kind, content, usage, stop_reason=stop_reason, category=category))
    items, cents = price_call(make_call_of(found, at), PRICES)
    listed = listed or [usage]
    for component, name in (("input", "input_tokens"), ("output", "output_tokens")):
        quantities = [item.quantity for item in items if item.component == component]
        assert quantities == [each[name] for each in listed if each[name]]
    free = [item for item in items if item.unbilled_reason is not None]
    assert all(item.cents == 0 and item.multiplier == 0 for item in free)
    if items:
        assert (cents is None) == any(item.cents is None for item in items)
    can_be_free = stop_reason == "refusal" or any(block["type"] == "fallback" for block in content)
    assert can_be_free or not free


@pytest.mark.slow
@both
def test_a_thousand_passes_and_fallbacks_take_no_second(kind):
    listed = [a_pass("message", f"model-{n}", 1, 1) for n in range(MAX_PASSES)]
    content = [fallback_block(f"model-{n}", f"model-{n + 1}", "cyber") for n in range(4_000)]
    body = make_body(kind, content, counts(1, 1, iterations=listed), stop_reason="refusal")
    with takes_less_than(3):
        found = read(kind, body)
        call = make_call(found, created_at=NOW, outcome="complete", status_code=200)
    assert (len(found.hops), len(call.items)) == (MAX_FALLBACKS, 2 * MAX_PASSES)


@pytest.mark.parametrize(
    ("outcome", "status", "source", "expected"),
    [
        ("client_disconnected", None, "none", True),
        ("client_disconnected", 200, "none", True),
        ("upstream_timeout", None, "none", True),
        ("upstream_interrupted", 200, "none", True),
        ("proxy_restarted", None, "none", True),
        ("complete", 200, "none", True),  # the response was lost
        ("client_disconnected", 429, "none", False),
        ("complete", 307, "none", False),
        ("upstream_error", 200, "none", False),
        ("upstream_unreachable", None, "none", False),
        ("client_disconnected", 200, "estimated", False),
        ("complete", 200, "final", False),
    ],
)
def test_a_call_without_usage_may_be_billed_unless_it_failed(outcome, status, source, expected):
    assert may_be_billed(outcome, status, source) is expected
