"""The operations that report usage, and their models."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, create_model

from manage.api.operation import Context, operation
from manage.api.validation import check_period
from metering import token_counts
from metering.credential_names import NOTHING_KNOWN, KnownCredentials
from metering.token_counts import flatten
from runtime import clock
from store.json_models import Day, RequestModel, ResponseModel
from store.traces.sums.forecast import Month
from store.traces.sums.month import read_file
from store.traces.sums.product_model import UsageProduct
from store.traces.sums.usage_report import Group, Grouping, Totals, UsageReport, read_usage


class UsageQuery(RequestModel):
    by: Annotated[Grouping, Field(description="What to group by.")] = "day"
    from_day: Annotated[
        Day | None, Field(alias="from", description="The first day, UTC. Default: the oldest.")
    ] = None
    to_day: Annotated[
        Day | None, Field(alias="to", description="The last day, UTC. Default: the newest.")
    ] = None


class _Calls(ResponseModel):
    calls: int
    errors: Annotated[
        int, Field(description="Calls that failed. A client that disconnected is not an error.")
    ]


_TOKEN_FIELDS: dict[str, Any] = dict.fromkeys(token_counts.NAMES, int)
_CallsAndTokens = create_model("_CallsAndTokens", __base__=_Calls, **_TOKEN_FIELDS)


class UsageTotals(_CallsAndTokens):  # type: ignore[misc, valid-type]  # made from the classes of tokens
    cost_cents: Annotated[float, Field(description="List price, without what has no known price.")]
    unpriced: Annotated[int, Field(description="Calls with usage but without a known price.")]
    estimated_cents: Annotated[
        float,
        Field(description="The part of the cost that is estimated: the output of cut streams."),
    ] = 0.0
    value_cents: Annotated[
        float,
        Field(
            description="The part of the cost that a subscription or a customer covers, or of imported calls: list price, and no bill."
        ),
    ] = 0.0
    spend_cents: Annotated[float, Field(description="The rest of the cost.")] = 0.0
    maybe_billed: Annotated[
        int,
        Field(
            description="Calls that upstream may have billed though no usage came back. They have no cost."
        ),
    ] = 0
    unbilled_tokens: Annotated[
        int,
        Field(
            description="Tokens that upstream does not bill, as those of most refusals. In no other count."
        ),
    ] = 0
    unpriced_tokens: Annotated[
        int, Field(description="The part of the tokens whose model has no known price.")
    ] = 0
    rejected: Annotated[
        int | None,
        Field(
            description="Requests over the rate limit or a budget, which are not calls. Of a group: by day and by endpoint, otherwise null; null of a run."
        ),
    ]

    @classmethod
    def make(cls, totals: Totals) -> Self:
        return cls(**flatten(totals), spend_cents=totals.spend_cents)


class UsageGroup(UsageTotals):
    day: Annotated[str | None, Field(description="By day.", json_schema_extra={"format": "date"})]
    model: Annotated[
        str | None,
        Field(description="By model; null also for an unknown one, as in the others below."),
    ]
    request_model: Annotated[
        str | None,
        Field(
            description="By model: what calls asked for whose response named none, as those that reached no upstream."
        ),
    ] = None
    proxy_endpoint_id: Annotated[str | None, Field(description="By endpoint.")]
    slug: Annotated[str | None, Field(description="By endpoint.")]
    client: Annotated[
        str | None,
        Field(
            description="By client: the product without its version, `(other)` for those beyond 20 in an hour."
        ),
    ] = None
    credential_hmac: Annotated[
        str | None,
        Field(
            description="By credential: its fingerprint, `(other)` for those beyond 100 in an hour."
            " Tokens of one subscription are one group, by the fingerprint of their account."
        ),
    ] = None
    name: Annotated[
        str | None,
        Field(description="By credential or agent: its name, if an owner gave it one."),
    ] = None
    fingerprints: Annotated[
        Sequence[str],
        Field(description="By credential: those of all tokens of the account, the oldest first."),
    ] = ()
    billing: Annotated[
        str | None,
        Field(
            description="By billing: `api_key`, `subscription`, `customer` (linked billing), `overage` for calls of a subscription that paid extra usage covers, or `imported`."
        ),
    ] = None

    user: Annotated[
        str | None,
        Field(description="By user: what clients name; null for calls that name none."),
    ] = None
    project: Annotated[str | None, Field(description="By project, in the same way.")] = None
    tag: Annotated[
        str | None,
        Field(
            description="By tag: `key:value`, or a tag without a key. A call is in the group of each of its tags, and in none without a tag."
        ),
    ] = None
    session: Annotated[
        str | None,
        Field(
            description="By session; null for calls of none. As by user, project, tag and agent the 1,000 most expensive, and `(other)`."
        ),
    ] = None
    agent: Annotated[str | None, Field(description="By agent; null for the main one.")] = None

    @classmethod
    def make_group(cls, group: Group, known: KnownCredentials = NOTHING_KNOWN) -> Self:
        names = flatten(group)
        totals: Totals = names.pop("totals")
        credential = group.credential_hmac or group.agent or ""
        return cls(
            **names,
            **flatten(totals),
            spend_cents=totals.spend_cents,
            name=known.names.get(credential),
            fingerprints=[each for each, of in known.accounts.items() if of == credential],
        )


class UsageMonth(ResponseModel):
    today_cents: Annotated[float, Field(description="Cost of today, as the others UTC.")]
    cost_cents: Annotated[float, Field(description="Cost of the current month so far.")]
    spend_cents: Annotated[
        float, Field(description="The part of it that no subscription and no customer covers.")
    ]
    expected_cost_cents: Annotated[
        float | None,
        Field(
            description="Cost expected at the end of the month: so far, and for each hour left the mean of the last 7 days. Null with less than a day of calls."
        ),
    ]
    expected_spend_cents: Annotated[float | None, Field(description="The same for the spend.")]

    @classmethod
    def make(cls, month: Month) -> Self:
        return cls(
            today_cents=month.today_cents,
            cost_cents=month.cost.so_far,
            spend_cents=month.spend.so_far,
            expected_cost_cents=month.cost.expected,
            expected_spend_cents=month.spend.expected,
        )


class Usage(ResponseModel):
    by: Grouping
    from_day: Annotated[Day | None, Field(alias="from")]
    to_day: Annotated[Day | None, Field(alias="to")]
    totals: UsageTotals
    groups: Annotated[
        list[UsageGroup],
        Field(description="Days newest first; others by cost, the highest first."),
    ]
    month: Annotated[
        UsageMonth | None, Field(description="The current month, whatever the days of the report.")
    ] = None
    products: Annotated[
        list[UsageProduct],
        Field(
            default_factory=list,
            description="What other interfaces than messages have used. A session or dream belongs to the day on which it was created.",
        ),
    ]

    @classmethod
    def make(cls, report: UsageReport, month: Month, known: KnownCredentials) -> Self:
        return cls.of(
            report,
            month=UsageMonth.make(month),
            totals=UsageTotals.make(report.totals),
            groups=[UsageGroup.make_group(group, known) for group in report.groups],
            products=[UsageProduct.of(product) for product in report.products],
        )


@operation(
    "GET",
    "/usage",
    name="getUsage",
    summary="Totals of your organisation's calls, by day, model, project, session and more.",
    reads_calls=True,
)
def get_usage(context: Context[UsageQuery]) -> Usage:
    query = context.request
    check_period(query.from_day, query.to_day)
    report = read_usage(context.trace_path, query.by, query.from_day, query.to_day)
    known = NOTHING_KNOWN
    if query.by == "credential":
        known = context.management.names.find_credentials(context.caller)
    elif query.by == "agent":
        found = context.management.names.list(context.caller, "agent")
        known = KnownCredentials({each.fingerprint: each.name for each in found}, {})
    return Usage.make(report, read_file(context.trace_path, clock.now()), known)
