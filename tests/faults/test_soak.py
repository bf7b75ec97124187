"""The judgement on a soak, and its plot."""

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from tests.faults.plot import draw
from tests.faults.soak import Sample, find_growth, make_panels


def _sample(number: int, **changes: float) -> Sample:
    figures = {"memory": 50.0 + min(number, 8), "descriptors": 20, "disk": 5.0 * number} | changes
    return Sample(
        minute=float(number),
        calls=1000 * number,
        memory_mb={"recorder": figures["memory"], "up": 20.0},
        descriptors={"recorder": int(figures["descriptors"]), "up": 9},
        disk_mb={"databases": figures["disk"], "spool": 1.0},
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_sample, None),
        (lambda number: _sample(number, memory=50.0 + 2 * number), "memory of recorder"),
        (lambda number: _sample(number, descriptors=20 + number // 2), "descriptors of recorder"),
        (lambda number: _sample(number, disk=0.2 * number**2), "bytes stored of a call"),
    ],
)
def test_what_grows_is_named_and_what_has_filled_is_not(
    make: Callable[[int], Sample], said: str | None
) -> None:
    found = find_growth([make(number) for number in range(1, 41)])
    assert [sentence.partition(":")[0] for sentence in found] == ([] if said is None else [said])


def test_a_soak_of_too_few_samples_is_not_called_good() -> None:
    assert find_growth([_sample(1)]) == ["too few samples"]


def test_the_plot_is_svg_with_a_line_for_each_series() -> None:
    samples = [_sample(number) for number in range(1, 5)]
    svg = draw("A <soak>", [each.minute for each in samples], make_panels(samples))
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own text
    lines = [each for each in root.iter() if each.tag.endswith("polyline")]
    assert len(lines) == 2 + 2 + 2
    assert "A <soak>" in {each.text for each in root.iter()}
