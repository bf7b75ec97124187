"""The axis of a chart: round numbers that people count in."""

import math
from collections.abc import Sequence

_TICKS = 4
_MULTIPLES = (1, 2, 2.5, 5, 10)


def make_ticks(most: float, *, unit: float = 0.0) -> Sequence[float]:
    """Return evenly spaced values from 0 to one that is not below ``most``, all multiples of ``unit``."""
    if most <= 0:
        return (0.0, 1.0)
    rough = most / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in _MULTIPLES if power * each >= rough * (1 - 1e-9))
    if unit:
        step = unit * max(1, math.ceil(step / unit - 1e-9))
    count = math.ceil(most / step - 1e-9)
    return [round(step * number, 12) for number in range(count + 1)]
