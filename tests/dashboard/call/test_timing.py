"""The times of a call as bars."""

import pytest

from dashboard.call.timing import ROW, WIDTH, draw_timing
from tests.store.traffic import make_entry


def timing_of(**fields):
    found = draw_timing(make_entry(**fields))
    assert found is not None
    return found


def test_each_time_has_a_bar_and_words():
    found = timing_of(
        duration_ms=4_000.0,
        ttfb_ms=1_000.0,
        proxy_overhead_ms=2.0,
        output_tokens_per_s=88.25,
        streamed=True,
    )
    assert [(bar.label, bar.words) for bar in found.bars] == [
        ("Proxy overhead", "2 ms, 0.1% of the call"),
        ("Time to first byte", "1.0 s"),
        ("Streaming", "3.0 s, 88.2 tokens per second"),
    ]
    proxy, wait, stream = found.bars
    assert (wait.left, wait.width) == (0, WIDTH / 4)
    assert (stream.left, stream.width) == (WIDTH / 4, WIDTH * 3 / 4)
    assert proxy.width > 0, "it is seen, however short it is"
    assert [bar.top // ROW for bar in found.bars] == [0, 1, 2]
    assert found.height == 3 * ROW


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"ttfb_ms": None}, ["Waiting for upstream"]),
        ({"ttfb_ms": 50.0, "streamed": False}, ["Time to first byte", "Rest of the response"]),
    ],
)
def test_what_is_not_known_has_no_bar(fields, labels):
    assert [bar.label for bar in timing_of(duration_ms=100.0, **fields).bars] == labels
    assert draw_timing(make_entry(duration_ms=None, **fields)) is None


@pytest.mark.parametrize("duration_ms", [0.0, 1e-9, 5.0, 1e12])
@pytest.mark.parametrize("first_ms", [0.0, 1e-9, 10.0, 1e13])
def test_every_bar_is_within_the_drawing(duration_ms, first_ms):
    found = timing_of(duration_ms=duration_ms, ttfb_ms=first_ms, proxy_overhead_ms=1e6)
    for bar in found.bars:
        assert 0 <= bar.left <= bar.left + bar.width <= WIDTH
