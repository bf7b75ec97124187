"""The times of a call as parts of one bar."""

import pytest

from dashboard.call.timing import draw_timing
from tests.store.traffic import make_entry


def timing_of(**fields):
    found = draw_timing(make_entry(**fields))
    assert found is not None
    return found


def place(part):
    return float(part.x.rstrip("%")), float(part.width.rstrip("%"))


def test_each_time_has_a_part_and_words():
    found = timing_of(
        duration_ms=4_000.0,
        ttfb_ms=1_000.0,
        proxy_overhead_ms=2.0,
        output_tokens_per_s=88.25,
        streamed=True,
    )
    assert [part.words for part in found.parts] == [
        "proxy 2 ms",
        "waiting for the first byte 1.0 s",
        "streaming 3.0 s, 88.2 tokens per second",
    ]
    proxy, wait, stream = map(place, found.parts)
    assert wait == (0.05, 25)
    assert stream == (25, 75)
    assert proxy[1] > 0, "it is seen, however short it is"
    assert "proxy 2 ms, waiting" in found.words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"ttfb_ms": None}, ["waiting 100 ms, no byte of a response"]),
        (
            {"ttfb_ms": 50.0, "streamed": False},
            ["waiting for the first byte 50 ms", "rest of the response 50 ms"],
        ),
    ],
)
def test_what_is_not_known_has_no_part(fields, words):
    assert [part.words for part in timing_of(duration_ms=100.0, **fields).parts] == words
    assert draw_timing(make_entry(duration_ms=None, **fields)) is None


@pytest.mark.parametrize("duration_ms", [0.0, 1e-9, 5.0, 1e12])
@pytest.mark.parametrize("first_ms", [0.0, 1e-9, 10.0, 1e13])
def test_every_part_is_within_the_drawing(duration_ms, first_ms):
    found = timing_of(duration_ms=duration_ms, ttfb_ms=first_ms, proxy_overhead_ms=1e6)
    for part in found.parts:
        x, width = place(part)
        assert 0 <= x <= x + width <= 100.01
