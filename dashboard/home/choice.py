"""The choices in the address of the home page: period, group, measure, filters, order of sessions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from dashboard.overview.filters import NAMES, Filters, Name, choose, parse_filters
from dashboard.overview.periods import Period, parse_span

type Order = Literal["newest", "cost"]
type Measure = Literal["cost", "tokens", "calls", "time", "session", "prompt"]

PATH = "/"
DEFAULT_PERIOD = "14d"
COMPARED_PERIOD = "7d"  # of the default, whose columns are both weeks
KIND: Literal["kind"] = "kind"  # of tokens, as a group
_GROUPS: tuple[Name | Literal["kind"], ...] = (*NAMES, KIND)


class MeasureWords(NamedTuple):
    """The words for a measure: for its link, for the heading, and for the unit of the columns."""

    link: str
    title: str
    unit: str


MEASURES: Mapping[Measure, MeasureWords] = {
    "cost": MeasureWords("$", "Cost", "US dollars"),
    "tokens": MeasureWords("Tokens", "Tokens", "Tokens"),
    "calls": MeasureWords("Calls", "Calls", "Calls"),
    "time": MeasureWords("Time", "Time", "Median of the time"),
    "session": MeasureWords(
        "$/session", "Cost", "US dollars a session, by the day on which it ended,"
    ),
    "prompt": MeasureWords(
        "$/prompt", "Cost", "US dollars a prompt, by the day on which its session ended,"
    ),
}
# In groups these have no sums of hours, or none of what a measure needs.
_UNGROUPED: tuple[Measure, ...] = ("session", "prompt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choices in the address of the home page. ``by`` is the field to group by, or ``kind`` for kinds
    of tokens."""

    period: Period
    by: Name | Literal["kind"]
    measure: Measure
    order: Order
    filters: Filters

    @property
    def group(self) -> Name:
        """Return the field to group calls by; for kinds of tokens it is the model."""
        return "model" if self.by == "kind" else self.by

    @property
    def is_of_kinds(self) -> bool:
        """Return whether the columns are stacked by kinds of tokens."""
        return self.by == KIND and self.measure == "tokens"

    @property
    def is_grouped(self) -> bool:
        """Return whether the measure can be shown by group."""
        return self.measure not in _UNGROUPED

    def address(
        self,
        *,
        period: str | None = None,
        by: str | None = None,
        measure: str | None = None,
        order: str | None = None,
        filters: Filters | None = None,
    ) -> str:
        """Return the address of the page with other choices; default values are left out."""
        chosen = {
            "period": (period or self.period.span, DEFAULT_PERIOD),
            "by": (by or self.by, "model"),
            "measure": (measure or self.measure, "cost"),
            "order": (order or self.order, "newest"),
        }
        arguments = [(name, value) for name, (value, usual) in chosen.items() if value != usual]
        arguments += (self.filters if filters is None else filters).as_arguments()
        return f"{PATH}?{urlencode(arguments, errors='replace')}" if arguments else PATH

    def compared(self, now: datetime) -> Period:
        """Return the period that is compared with the one before it; if two weeks are shown, the second."""
        is_default = self.period.span == DEFAULT_PERIOD
        return parse_span(COMPARED_PERIOD, now) if is_default else self.period


def parse_choice(arguments: Mapping[str, str], now: datetime) -> Choice:
    """Parse the choices in an address. Raises InvalidInputError."""
    return Choice(
        period=parse_span(_find_period(arguments), now),
        by=choose(_GROUPS, arguments.get("by") or "model", "by"),
        measure=choose(tuple(MEASURES), arguments.get("measure") or "cost", "measure"),
        order="cost" if arguments.get("order") == "cost" else "newest",
        filters=parse_filters(arguments),
    )


def _find_period(arguments: Mapping[str, str]) -> str:
    """Return the period in an address, which a form sends as two days (``from`` and ``to``)."""
    first, last = arguments.get("from"), arguments.get("to")
    if first and last:
        return f"{first}..{last}"
    return arguments.get("period") or DEFAULT_PERIOD
