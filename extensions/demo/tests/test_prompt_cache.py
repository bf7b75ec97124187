from datetime import UTC, datetime, timedelta

import pytest

from extensions.demo.prompt_cache import InputTokens, PromptCache

LONG = "word " * 2_000
NOON = datetime(2026, 7, 7, 12, tzinfo=UTC)


def body(*messages, tools=(), model="m", ttl="5m"):
    marker = {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    blocks = [{"type": "text", "text": words} for words in messages]
    return {
        "model": model,
        "tools": list(tools),
        "system": [{"type": "text", "text": LONG, **marker}],
        "messages": [{"role": "user", "content": [block | marker]} for block in blocks],
    }


def test_what_a_call_writes_the_next_one_reads():
    cache = PromptCache()
    first = cache.count(body("one"), NOON)
    second = cache.count(body("one", "two"), NOON)
    assert (first.read, first.uncached) == (0, 0)
    assert second.read == first.written
    assert 0 < second.written < 20


def test_another_tool_or_model_loses_the_whole_prompt():
    cache = PromptCache()
    tool = {"name": "Read"}
    cache.count(body("one", tools=[tool]), NOON)
    assert cache.count(body("one", "two"), NOON).read == 0
    assert cache.count(body("one", "two", tools=[tool], model="other"), NOON).read == 0
    assert cache.count(body("one", "two", tools=[tool]), NOON).read > 2_000


def test_a_short_prompt_and_one_without_markers_are_not_cached():
    cache = PromptCache()
    short = {"system": "Be brief.", "messages": [{"role": "user", "content": "Hello"}]}
    counted = cache.count(short, NOON)
    assert counted == InputTokens(uncached=counted.uncached, written=0, read=0)
    assert cache.count(short, NOON) == counted


@pytest.mark.parametrize(("ttl", "minutes"), [("5m", 5), ("1h", 60)])
def test_a_prefix_expires_a_lifetime_after_it_was_last_read(ttl, minutes):
    cache = PromptCache()
    lifetime, moment = timedelta(minutes=minutes), timedelta(seconds=1)
    written = cache.count(body("one", ttl=ttl), NOON)
    assert (written.read, written.ttl) == (0, ttl)
    assert cache.count(body("one", ttl=ttl), NOON + lifetime - moment).read == written.written
    assert cache.count(body("one", ttl=ttl), NOON + 2 * lifetime - 2 * moment).read > 0
    assert cache.count(body("one", ttl=ttl), NOON + 3 * lifetime).read == 0
