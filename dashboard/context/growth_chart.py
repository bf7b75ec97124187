"""The chart of a conversation's growth: a column for each turn, with the tokens of each category."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from conversations.timeline import Turn
from conversations.xray import Category
from dashboard.addresses import row_address
from dashboard.context.words import COLOURS, TITLES, find_colour
from dashboard.drawing import Chart, make_chart
from metering.formats import format_count, format_short_tokens

MAX_COLUMNS = 120


class ColumnWords(NamedTuple):
    """The address and the texts of a column, for the chart macro of ``_components.html``."""

    address: str
    name: str
    value: str
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthChart:
    """The chart with its legend. ``every``: each column is one turn of so many."""

    chart: Chart
    words: Sequence[ColumnWords]
    categories: Sequence[Category]
    every: int

    @property
    def colours(self) -> list[str]:
        """Return the CSS classes of the categories, in their order."""
        return [find_colour(each) for each in self.categories]


def sample(turns: Sequence[Turn], most: int) -> tuple[list[Turn], int]:
    """Return every nth turn, at most ``most`` and always the last one, and n."""
    every = -(-len(turns) // most)
    return [*turns[::-1][::every]][::-1], every


def draw(turns: Sequence[Turn], numbers: Mapping[int, int]) -> GrowthChart:
    """Return the chart of these turns. ``numbers`` has the number of each turn in its session, by row id."""
    points, every = sample(turns, MAX_COLUMNS)
    known = dict.fromkeys(name for turn in points for name in turn.tokens)
    order = [*COLOURS, *known]
    categories = sorted(known, key=order.index)
    names = [_name(turn, numbers) for turn in points]
    return GrowthChart(
        chart=make_chart(
            [[turn.tokens.get(each, 0.0) for each in categories] for turn in points],
            [name.rpartition(" ")[2] for name in names],
            lambda tokens: format_short_tokens(round(tokens)),
            unit=1,
        ),
        words=[_tell(turn, name, categories) for turn, name in zip(points, names, strict=True)],
        categories=categories,
        every=every,
    )


def _name(turn: Turn, numbers: Mapping[int, int]) -> str:
    number = numbers.get(turn.call.id)
    return f"Call {turn.call.id}" if number is None else f"Turn {number}"


def _tell(turn: Turn, name: str, categories: Sequence[Category]) -> ColumnWords:
    rows = [
        (TITLES[each], format_count(round(turn.tokens[each])))
        for each in reversed(categories)
        if each in turn.tokens
    ]
    value = f"{format_count(turn.call.tokens.total)} tokens"
    return ColumnWords(f"{row_address(turn.call.id)}/context", name, value, rows)
