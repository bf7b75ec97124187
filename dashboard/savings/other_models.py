"""The costs that the calls of a period or a session would have with other models."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dashboard.overview.filters import Filters
from dashboard.overview.periods import Period
from metering.other_models import Exchange, ModelUse, Prices, list_candidates, price_all
from runtime.errors import InvalidInputError
from store.traces.sums.model_uses import read_model_uses, read_session_uses
from store.traces.sums.overview_query import OF_CALLS
from store.traces.sums.overview_reader import OverviewReader

METHOD = (
    "The tokens are those of the calls as they were, at the list prices of both models: the cost of"
    " each model is multiplied by what its tokens cost at the prices of the other, divided by what they"
    " cost at its own. Web searches cost the same. Another model would have written other responses,"
    " might have taken more or fewer calls, and may count tokens otherwise."
)
MAX_MODELS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The use of one model, with its cost at the prices of each other model."""

    use: ModelUse
    others: Sequence[Exchange]

    def find(self, other: str) -> Exchange | None:
        """Return the cost with another model, None if it is the same model or a price is unknown."""
        return next((each for each in self.others if each.other == other), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherModels:
    """The costs of the chosen calls with other models. ``columns`` are the other models, the most
    expensive first; ``at`` is the time for which list prices were taken."""

    at: datetime
    columns: Sequence[str] = ()
    models: Sequence[Compared] = field(default=())

    @property
    def cents(self) -> float:
        """Return the actual cost of all calls in cents."""
        return sum(each.use.cents for each in self.models)

    def total_with(self, other: str) -> float | None:
        """Return the cost in cents of all calls with one model, None if a price is unknown."""
        total = 0.0
        for each in self.models:
            found = each.find(other)
            if each.use.model != other and found is None and each.use.cents > 0:
                return None
            total += each.use.cents if found is None else found.other_cents
        return total


def compare_models(uses: Sequence[ModelUse], prices: Prices, at: datetime) -> OtherModels:
    """Return the comparison of the used models with all candidates, at the prices of ``at``."""
    used = [use for use in uses if use.calls or use.cents][:MAX_MODELS]
    columns = list_candidates((use.model for use in used), prices, at)
    return OtherModels(
        at=at,
        columns=columns,
        models=[Compared(use=use, others=price_all(use, columns, prices, at)) for use in used],
    )


def read_uses(db: sqlite3.Connection, period: Period, filters: Filters) -> Sequence[ModelUse]:
    """Return the use of each model in a period, or in all calls of a session if that is a filter.

    Raises sqlite3.Error, and InvalidInputError for filters that the tables of sums do not have."""
    if (session := filters.values.get("session")) is not None:
        if len(filters.values) > 1:
            raise InvalidInputError("a session cannot be filtered any further", "session")
        return read_session_uses(db, session)
    for name in filters.values:
        if name in OF_CALLS:
            raise InvalidInputError(f"costs with other models are not kept by {name}", name)
    if not OverviewReader(db).is_ready:
        return ()
    return read_model_uses(db, filters.query(period.elapsed))
