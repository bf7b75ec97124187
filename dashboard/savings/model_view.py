"""The table that compares the costs of calls with those of other models, with its texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.home.names import name_group
from dashboard.savings.other_models import Compared, OtherModels
from metering.formats import UNKNOWN, format_change, format_sum_cost

_SAME = "This is the model that was used."
_NO_PRICE = "A price is not known."


@dataclass(frozen=True, slots=True)
class Column:
    """Another model, and the cost of all calls with it, None if a part is unknown. ``change`` is the
    change from the actual cost in per cent."""

    model: str
    name: str
    cents: float | None
    change: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cost with its CSS class; ``title`` explains why there is none."""

    text: str
    kind: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A model that was used, with a cell for each column. ``cents`` is None if its price is unknown."""

    name: str
    calls: int
    cents: float | None
    cells: Sequence[Cell]


def make_columns(found: OtherModels) -> Sequence[Column]:
    """Return the columns for the other models, the most expensive first."""
    return [_make_column(found, model) for model in found.columns]


def _make_column(found: OtherModels, model: str) -> Column:
    cents = found.total_with(model)
    change = "" if cents is None else format_change(cents, found.cents)
    return Column(model, name_group("model", model), cents, change)


def make_rows(found: OtherModels) -> Sequence[Row]:
    """Return the rows for the models that were used, in the order of ``found.models``."""
    return [
        Row(
            name_group("model", each.use.model),
            each.use.calls,
            each.use.cents if each.use.cents or each.others else None,
            [_make_cell(each, other) for other in found.columns],
        )
        for each in found.models
    ]


def list_cheaper(found: OtherModels, columns: Sequence[Column]) -> Sequence[Column]:
    """Return models with which all calls would have cost less: the one nearest in cost, and the cheapest.

    The nearest is the more useful one, since the cheapest is hardly ever as good."""
    known = [(each.cents, each.name, each) for each in columns if each.cents is not None]
    known.sort(key=lambda each: each[:2], reverse=True)
    cheaper = [column for cents, _, column in known if cents < found.cents]
    return cheaper[:1] + cheaper[-1:] if len(cheaper) > 1 else cheaper


def _make_cell(compared: Compared, other: str) -> Cell:
    if compared.use.model == other:
        return Cell(UNKNOWN, "soft", _SAME)
    found = compared.find(other)
    if found is None:
        return Cell(UNKNOWN, "soft", _NO_PRICE)
    kind = "" if not found.saved_cents else "down" if found.saved_cents > 0 else "up"
    return Cell(format_sum_cost(found.other_cents), kind)
