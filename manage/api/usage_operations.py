"""The operations of usage: what each does. Their models are in ``models``."""

from http import HTTPStatus

from manage.api.models import NoFields, Run, Usage, UsageQuery
from manage.api.operation import Context, operation


@operation(
    "GET",
    "/usage",
    name="getUsage",
    summary="Totals of your organisation's calls, by day, model or endpoint.",
    request=UsageQuery,
    response=Usage,
)
def get_usage(context: Context[UsageQuery]) -> Usage:
    query = context.request
    report = context.management.usage(context.caller, query.by, query.from_day, query.to_day)
    return Usage.make(report)


@operation(
    "GET",
    "/runs/{id}",
    name="getRun",
    summary="Totals of the calls of one run, and of each model. A run without calls has zeros.",
    request=NoFields,
    response=Run,
    errors={
        HTTPStatus.NOT_FOUND: "There is no such run: an id has 1 to 64 letters, digits and . _ -"
    },
)
def get_run(context: Context[NoFields]) -> Run:
    return Run.make(context.management.run_usage(context.caller, context.id))


OPERATIONS = (get_usage, get_run)
