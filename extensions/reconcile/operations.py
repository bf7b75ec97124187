"""The operation that reads recorded usage for `taximeter reconcile`, and its models."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Self

from pydantic import Field

from extensions.reconcile.comparison import Cause, Recorded, RecordedUsage
from manage.api.operation import Context, operation
from manage.api.validation import check_period
from store.json_models import Day, RequestModel, ResponseModel


class RecordedUsageQuery(RequestModel):
    from_day: Annotated[Day, Field(alias="from", description="The first day, UTC.")]
    to_day: Annotated[Day, Field(alias="to", description="The last day, UTC.")]
    upstream_organization_id: Annotated[
        str | None,
        Field(description="Calls to another upstream organisation than this one are left out."),
    ] = None


class RecordedItems(ResponseModel):
    items: Annotated[
        Sequence[Recorded], Field(description="Sums by day, kind, model and workspace.")
    ]
    notes: Annotated[
        Sequence[Cause], Field(description="What is left out of the sums, or less exact.")
    ]

    @classmethod
    def make(cls, usage: RecordedUsage) -> Self:
        return cls(items=usage.items, notes=usage.notes)


@operation(
    "GET",
    "/recorded-usage",
    name="getRecordedUsage",
    summary="What was recorded in a period, as `taximeter reconcile` compares it with upstream's reports.",
    reads_calls=True,
)
def get_recorded_usage(context: Context[RecordedUsageQuery]) -> RecordedItems:
    """Return the recorded usage of calls on these days that the API bills.

    Raises InvalidInputError, PriceFileError."""
    query = context.request
    check_period(query.from_day, query.to_day)
    # Only here: prices take time to load, and nothing else of this needs them.
    prices = import_module("store.price_file").load_prices(context.management.prices)
    read: Callable[..., RecordedUsage] = import_module(
        "extensions.reconcile.recorded_usage"
    ).read_recorded_usage
    return RecordedItems.make(
        read(
            context.trace_path,
            query.from_day,
            query.to_day,
            prices,
            query.upstream_organization_id,
        )
    )


OPERATIONS = (get_recorded_usage,)
