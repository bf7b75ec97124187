import random
from datetime import timedelta
from decimal import Decimal

from runtime import clock
from store.traces.calls.costs import NewCost
from tests.store.traffic import make_entry

SUMS = (
    "select session_id, calls, errors, unpriced, input_tokens, output_tokens,"
    " cache_creation_input_tokens, cache_read_input_tokens, round(cost_cents, 6),"
    " round(estimated_cents, 6), round(value_cents, 6), peak_prompt_tokens, started_at"
    " from sessions order by 1"
)
# The same, worked out from the calls themselves.
INDEPENDENT = (
    "select session_id, count(*), sum(outcome not in ('complete', 'client_disconnected')),"
    " sum(cost_cents is null and usage_source <> 'none'), total(input_tokens), total(output_tokens),"
    " total(cache_creation_input_tokens), total(cache_read_input_tokens),"
    " round(total(cost_cents), 6), round(total(estimated_cents), 6),"
    " round(total(case when billing = 'customer' or billing = 'subscription' and coalesce(overage, 0) = 0 then cost_cents end), 6),"
    " max(coalesce(input_tokens, 0) + coalesce(cache_creation_input_tokens, 0)"
    " + coalesce(cache_read_input_tokens, 0)), min(created_at)"
    " from usage where session_id is not null group by 1 order by 1"
)


def make_any(rng):
    cost = rng.choice([None, Decimal("1.5"), Decimal("0.25")])
    return make_entry(
        session_id=rng.choice([None, "a", "b", "c"]),
        cost_cents=cost,
        estimated_cents=rng.choice([None, Decimal("0.125")]) if cost else None,
        outcome=rng.choice(["complete", "client_disconnected", "upstream_error"]),
        usage_source=rng.choice(["final", "none"]),
        billing=rng.choice([None, "api_key", "subscription", "customer"]),
        overage=rng.choice([None, False, True]),
        input_tokens=rng.choice([None, 7, 9_000]),
        duration_ms=rng.choice([None, 1500.0]),
    )


def make_entries(count=80, seed=1):
    rng = random.Random(seed)  # noqa: S311
    return [make_any(rng) for _ in range(count)]


def both(connection):
    return connection.execute(SUMS).fetchall(), connection.execute(INDEPENDENT).fetchall()


def read(traces, columns):
    return traces.connection.execute(f"select {columns} from sessions").fetchall()  # noqa: S608


def test_the_sums_are_those_of_the_calls_whatever_the_batches(traces):
    entries = make_entries()
    for start in range(0, len(entries), 7):
        traces.insert(entries[start : start + 7])
        traces.insert(entries[start : start + 7])  # again, as after a crash
    sums, independent = both(traces.connection)
    assert sums == independent
    assert len(sums) == 3


def test_a_changed_cost_is_that_of_its_session_too(traces):
    traces.insert(make_entries())
    for usage_id, cost in ((3, Decimal(40)), (4, None), (5, Decimal(0)), (900, Decimal(1))):
        traces.update_costs([NewCost(usage_id=usage_id, cost_cents=cost, cost_items=())])
    sums, independent = both(traces.connection)
    assert sums == independent


def test_the_sums_stay_until_the_last_call_is_removed(traces):
    first, second = make_entry(session_id="a"), make_entry(session_id="a")
    traces.insert([first, second, make_entry(session_id="b")])
    traces.prune(before=second.created_at, pause=lambda _s: None)
    assert read(traces, "session_id, calls") == [("a", 2), ("b", 1)]
    traces.prune(before="9999", pause=lambda _s: None)
    assert read(traces, "*") == []


def test_the_title_is_what_was_said_first_with_tools(traces):
    def say(title, **changes):
        return make_entry(session_id="a", title_text=title, **changes)

    quota, first, later = say("quota", tool_count=0), say("Mend it"), say("And the other")
    first.tool_count = later.tool_count = 3
    traces.insert([later])
    assert read(traces, "title") == [("And the other",)]
    traces.insert([quota, make_entry(session_id="a", tool_count=3)])
    assert read(traces, "title") == [("And the other",)]
    traces.insert([first])
    assert read(traces, "title") == [("Mend it",)]


def test_a_session_without_words_has_no_title(traces):
    traces.insert([make_entry(session_id="a"), make_entry(session_id="b", title_text="Hi")])
    assert read(traces, "session_id, title") == [("a", None), ("b", "Hi")]


def test_a_session_ends_with_the_last_response(traces):
    long, short = (
        make_entry(session_id="a", duration_ms=90_000.0, slug="long", client="old/1"),
        make_entry(session_id="a", duration_ms=5.0, slug="short", client="new/1"),
    )
    traces.insert([long, short])
    end = clock.parse_instant(long.created_at) + timedelta(seconds=90)
    assert read(traces, "ended_at, slug, client") == [(clock.format_ms(end), "long", "old/1")]
