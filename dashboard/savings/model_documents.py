"""``/savings/models.json``: the models of its response. Times are UTC."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from dashboard.overview.periods import Period
from dashboard.savings.other_models import METHOD, Compared, OtherModels
from runtime.clock import format_seconds
from store.json_models import Instant, ResponseModel, SumOfCents


class WithModel(ResponseModel):
    model: str
    cost_cents: Annotated[SumOfCents | None, Field(description="null if a price is unknown.")]


class ComparedModel(ResponseModel):
    model: Annotated[str | None, Field(description="null for calls whose response named none.")]
    calls: int
    cost_cents: Annotated[SumOfCents, Field(description="The actual cost.")]
    others: Sequence[WithModel]

    @classmethod
    def make(cls, compared: Compared) -> Self:
        use = compared.use
        return cls(
            model=use.model or None,
            calls=use.calls,
            cost_cents=use.cents,
            others=[
                WithModel(model=each.other, cost_cents=each.other_cents) for each in compared.others
            ],
        )


class SavingsModels(ResponseModel):
    """The costs with other models. ``with_models`` has the cost of all calls for each of them."""

    period: str
    start: Instant
    end: Instant
    session: str | None
    priced_at: Annotated[Instant, Field(description="The time whose list prices were used.")]
    cost_cents: SumOfCents
    with_models: Sequence[WithModel]
    models: Sequence[ComparedModel]
    method: str

    @classmethod
    def make(cls, found: OtherModels, period: Period, session: str | None) -> Self:
        return cls(
            period=period.span,
            start=format_seconds(period.elapsed.start),
            end=format_seconds(period.elapsed.end),
            session=session,
            priced_at=format_seconds(found.at),
            cost_cents=found.cents,
            with_models=[
                WithModel(model=name, cost_cents=found.total_with(name)) for name in found.columns
            ],
            models=[ComparedModel.make(each) for each in found.models],
            method=METHOD,
        )
