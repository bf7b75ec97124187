"""The parts of a cost as charts and legends show them: classes of tokens, and web searches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dashboard.drawing import Stretch, lay_out
from metering.components import TOKEN_CLASSES, WEB_SEARCH
from metering.token_counts import CHART_CLASSES


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidPart:
    """A class of tokens, or web searches. ``style`` is the CSS class of its colour."""

    title: str
    style: str

    @property
    def word(self) -> str:
        """Return the last word of the title, which differs between parts: ``reads``, ``output``."""
        return self.title.rpartition(" ")[2].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidFor:
    """The cost of one part in US cents, and its place in a bar of all parts."""

    part: PaidPart
    cents: float
    place: Stretch


_BY_CLASS = {each.name: PaidPart(title=each.title, style=each.color) for each in CHART_CLASSES}
_OTHER = PaidPart(title=WEB_SEARCH.title, style="other")


def find_part(component: str) -> PaidPart:
    """Return the part that a component of a bill belongs to."""
    return _BY_CLASS[TOKEN_CLASSES[component]] if component in TOKEN_CLASSES else _OTHER


def sum_parts(amounts: Iterable[tuple[str, float]]) -> dict[PaidPart, float]:
    """Return the sum of (component, amount) pairs by part, in the order of charts."""
    sums = dict.fromkeys((*_BY_CLASS.values(), _OTHER), 0.0)
    for component, amount in amounts:
        sums[find_part(component)] += amount
    return sums


def list_paid_for(sums: Mapping[PaidPart, float]) -> list[PaidFor]:
    """Return the parts that cost something, with their places in a bar of all parts."""
    known = {part: cents for part, cents in sums.items() if cents > 0}
    places = lay_out(known.values(), sum(known.values()))
    return [
        PaidFor(part=part, cents=cents, place=place)
        for (part, cents), place in zip(known.items(), places, strict=True)
    ]
