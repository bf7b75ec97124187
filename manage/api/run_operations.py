"""The operations on runs of clients, and their models."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Self

from pydantic import Field

from manage.api.operation import Context, operation
from manage.api.usage_operations import UsageGroup, UsageTotals
from metering import attribution
from metering.attribution import Attribution
from store.json_models import NoFields, RequestModel, ResponseModel
from store.traces.calls.run_report import RunReport

AttributedName = Annotated[
    str | None,
    Field(
        description=f"1 to {attribution.MAX_NAME_CHARS} {attribution.CHARACTERS}.",
    ),
]


class NewRun(RequestModel):
    endpoint: Annotated[str, Field(description="The slug or id of the proxy endpoint of the run.")]
    user: AttributedName = None
    project: AttributedName = None
    tags: Annotated[
        Sequence[str],
        Field(
            description=f"At most {attribution.MAX_TAGS} tags of 1 to {attribution.MAX_TAG_CHARS} such characters, `key:value` among them.",
        ),
    ] = ()


class BegunRun(ResponseModel):
    run_id: str
    slug: str
    user: Annotated[str | None, Field(description="As it is stored, as are project and tags.")]
    project: str | None
    tags: Sequence[str]
    is_first_party: Annotated[
        bool, Field(description="Calls of the run go to the vendor's own API.")
    ] = False


class Run(ResponseModel):
    run_id: str
    pending: Annotated[
        int, Field(description="Calls of the run that are not recorded yet, and not in the totals.")
    ]
    totals: UsageTotals
    models: Annotated[list[UsageGroup], Field(description="By cost, the highest first.")]
    user: Annotated[
        str | None, Field(description="Of calls that name no user. So are project and tags.")
    ] = None
    project: str | None = None
    tags: Sequence[str] = ()

    @classmethod
    def make(cls, report: RunReport, attributes: Attribution) -> Self:
        return cls.of(
            report,
            user=attributes.user,
            project=attributes.project,
            tags=attributes.tags,
            totals=UsageTotals.make(report.totals),
            models=[UsageGroup.make_group(group) for group in report.models],
        )


@operation(
    "PUT",
    "/runs/{id}",
    name="beginRun",
    summary="Say for whom and what the calls of a run are made, before its first one.",
    errors={
        HTTPStatus.NOT_FOUND: "There is no such proxy endpoint, or no such run: an id has 1 to 64 letters, digits and . _ -",
        HTTPStatus.CONFLICT: "The run has its attributes already.",
    },
)
def begin_run(context: Context[NewRun]) -> BegunRun:
    request = context.request
    begun = context.management.runs.begin(
        context.caller, context.id, request.endpoint, request.user, request.project, request.tags
    )
    return BegunRun.of(begun)


@operation(
    "GET",
    "/runs/{id}",
    name="getRun",
    summary="Totals of the calls of one run, and of each model. A run without calls has zeros.",
    errors={
        HTTPStatus.NOT_FOUND: "There is no such run: an id has 1 to 64 letters, digits and . _ -"
    },
    reads_calls=True,
)
def get_run(context: Context[NoFields]) -> Run:
    return Run.make(
        context.management.runs.read_usage(context.caller, context.id),
        context.management.runs.find(context.caller, context.id),
    )
