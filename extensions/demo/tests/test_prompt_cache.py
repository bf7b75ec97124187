from extensions.demo.prompt_cache import InputTokens, PromptCache

LONG = "word " * 2_000


def body(*messages, tools=(), model="m"):
    marker = {"cache_control": {"type": "ephemeral"}}
    blocks = [{"type": "text", "text": words} for words in messages]
    return {
        "model": model,
        "tools": list(tools),
        "system": [{"type": "text", "text": LONG, **marker}],
        "messages": [{"role": "user", "content": [block | marker]} for block in blocks],
    }


def test_what_a_call_writes_the_next_one_reads():
    cache = PromptCache()
    first = cache.count(body("one"))
    second = cache.count(body("one", "two"))
    assert (first.read, first.uncached) == (0, 0)
    assert second.read == first.written
    assert 0 < second.written < 20


def test_another_tool_or_model_loses_the_whole_prompt():
    cache = PromptCache()
    tool = {"name": "Read"}
    cache.count(body("one", tools=[tool]))
    assert cache.count(body("one", "two")).read == 0
    assert cache.count(body("one", "two", tools=[tool], model="other")).read == 0
    assert cache.count(body("one", "two", tools=[tool])).read > 2_000


def test_a_short_prompt_and_one_without_markers_are_not_cached():
    cache = PromptCache()
    short = {"system": "Be brief.", "messages": [{"role": "user", "content": "Hello"}]}
    counted = cache.count(short)
    assert counted == InputTokens(uncached=counted.uncached, written=0, read=0)
    assert cache.count(short) == counted
