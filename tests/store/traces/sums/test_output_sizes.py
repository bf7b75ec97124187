"""The running sums of characters and tokens, by model."""

import pytest

from metering.delivered import UNKNOWN_SIZE, OutputSize
from store.traces.sums.output_sizes import KEPT_SHARE, MAX_MODELS, read_size, write_size
from tests.store.traffic import make_entry

SIZE = OutputSize(characters=400, tokens=100, thinking_characters=90, thinking_tokens=30)


def test_the_size_of_an_entry_is_added_to_the_sums_of_its_model(traces):
    traces.insert([make_entry(model="a", output_size=SIZE), make_entry(model="b")])
    assert read_size(traces.connection, "a") == SIZE
    assert read_size(traces.connection, "b") == read_size(traces.connection, None) == UNKNOWN_SIZE


def test_older_responses_weigh_less_and_less(traces):
    write_size(traces.connection, "a", OutputSize(characters=400, tokens=100))
    for _ in range(200):
        write_size(traces.connection, "a", OutputSize(characters=200, tokens=100))
    size = read_size(traces.connection, "a")
    assert size.characters / size.tokens == pytest.approx(2, rel=0.01)
    assert size.tokens < 100 / (1 - KEPT_SHARE)


def test_names_of_models_cannot_fill_the_table(traces):
    for number in range(MAX_MODELS + 1):
        write_size(traces.connection, f"model-{number}", SIZE)
    assert read_size(traces.connection, f"model-{MAX_MODELS}") == UNKNOWN_SIZE
    write_size(traces.connection, "model-0", SIZE)
    assert read_size(traces.connection, "model-0").tokens > SIZE.tokens
