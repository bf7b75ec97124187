"""The operation that reads what was recorded for `taximeter reconcile`, and its models."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from extensions.reconcile.comparison import Cause, Recorded, RecordedUsage
from manage.api.models import Day, RequestModel, ResponseModel
from manage.api.operation import Context, operation


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
    request=RecordedUsageQuery,
    response=RecordedItems,
)
def get_recorded_usage(context: Context[RecordedUsageQuery]) -> RecordedItems:
    query = context.request
    return RecordedItems.make(
        context.management.recorded_usage(
            context.caller, query.from_day, query.to_day, query.upstream_organization_id
        )
    )


OPERATIONS = (get_recorded_usage,)
