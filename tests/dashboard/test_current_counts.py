"""Counts of what is going on at the moment."""

from contextlib import suppress

from dashboard.current_counts import CurrentCounts


def test_a_key_counts_for_as_long_as_its_blocks_are_open():
    counts = CurrentCounts[str]()
    with counts.count("a", "b"):
        with counts.count("a"), suppress(KeyError), counts.count("b"):
            assert (counts["a"], counts["b"], counts["c"]) == (2, 2, 0)
            raise KeyError
        assert (counts["a"], counts["b"]) == (1, 1)
    assert (counts["a"], counts["b"]) == (0, 0)
