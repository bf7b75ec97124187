"""The operations on budgets and the webhook for their alerts, with their models."""

from http import HTTPStatus
from typing import Annotated, Self

from pydantic import Field

from manage.api.operation import FOR_OWNERS, NO_ENDPOINT, Context, operation
from metering.attribution import Part, PartKind
from metering.budget_periods import Period
from metering.budget_shares import DEFAULT_SHARES, MAX_SHARES
from runtime import clock
from runtime.errors import InvalidInputError, NotFoundError
from store.control.budget_management import BudgetStatus
from store.control.budgets import MAX_LIMIT_USD, Action, Format, format_secret, parse_part
from store.json_models import (
    Done,
    Instant,
    ListResponse,
    NoFields,
    PageQuery,
    RequestModel,
    ResponseModel,
    Slug,
)

_ENDPOINT_PATH, _PATH, _WEBHOOK_PATH = "/proxy-endpoints/{id}/budget", "/budget", "/budget-webhook"
_NO_ENDPOINT_BUDGET = {
    HTTPStatus.NOT_FOUND: "There is no such proxy endpoint in your organisation, or it has no budget."
}
_NO_BUDGET = {HTTPStatus.NOT_FOUND: "Your organisation has no budget of its own."}
_NO_WEBHOOK = {HTTPStatus.NOT_FOUND: "Your organisation has no webhook."}


_PART = "The calls that name this user or project, or have this tag; null: all calls."

OfPart = Annotated[dict[PartKind, str], Field(min_length=1, max_length=1, description=_PART)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class NewBudget(RequestModel):
    period: Annotated[
        Period,
        Field(
            description="The days, weeks and months of the organisation's time zone. Weeks begin on Monday."
        ),
    ]
    limit_usd: Annotated[
        float, Field(gt=0, le=MAX_LIMIT_USD, allow_inf_nan=False, description="Dollars of spend.")
    ]
    action: Annotated[
        Action, Field(description="At 100 %: only warn, or refuse calls until the reset too.")
    ] = "warn"
    warn_at: Annotated[
        list[Share] | None,
        Field(
            max_length=MAX_SHARES,
            description="Shares of the limit at which owners are told, besides the whole of it. Without"
            " them it is 0.8.",
        ),
    ] = None
    of: Annotated[
        OfPart | None,
        Field(description=f"{_PART} Such a budget only warns. There is one for each besides."),
    ] = None


class PartQuery(RequestModel):
    """The query that names the calls of a budget: of one user, project or tag, or all calls if none is
    named."""

    user: Annotated[str | None, Field(description="The budget of this user.")] = None
    project: Annotated[str | None, Field(description="The budget of this project.")] = None
    tag: Annotated[str | None, Field(description="The budget of the calls with this tag.")] = None

    def parse(self) -> Part | None:
        """Return the part of calls that the query names, None for all calls.

        Raises InvalidInputError if it names more than one, or a value is not valid."""
        given: dict[PartKind, str | None] = {
            "user": self.user,
            "project": self.project,
            "tag": self.tag,
        }
        found = [parse_part(kind, value) for kind, value in given.items() if value is not None]
        if len(found) > 1:
            raise InvalidInputError("a budget is of a user, a project or a tag: name one", "of")
        return found[0] if found else None


class Budget(ResponseModel):
    """A budget. ``proxy_endpoint_id`` and ``slug`` are null for a budget of the whole organisation."""

    proxy_endpoint_id: str | None
    slug: Slug | None
    period: Period
    limit_usd: float
    action: Action
    warn_at: Annotated[list[float], Field(default_factory=lambda: list(DEFAULT_SHARES))]
    part: Annotated[dict[PartKind, str] | None, Field(alias="of", description=_PART)] = None
    spent_usd: Annotated[float, Field(description="What was spent since starts_at.")]
    unpriced_calls: Annotated[
        int, Field(description="Calls without a known price, which are not in spent_usd.")
    ]
    starts_at: Instant
    resets_at: Instant
    time_zone: str
    created_at: Instant

    @classmethod
    def make(cls, status: BudgetStatus) -> Self:
        of = status.budget.of
        return cls.of(
            status.budget,
            warn_at=list(status.budget.shares),
            part=None if of is None else {of.kind: of.value},
            spent_usd=status.spent_usd,
            unpriced_calls=0 if status.spend is None else status.spend.unpriced,
            starts_at=clock.format_seconds(status.span.start),
            resets_at=clock.format_seconds(status.span.end),
        )


class BudgetPage(ListResponse):
    items: list[Budget]


class NewWebhook(RequestModel):
    url: Annotated[str, Field(description="An https address that the service may connect to.")]
    format: Annotated[
        Format,
        Field(description="What it takes of budgets: JSON of ours, or what Slack or Teams do."),
    ] = "plain"


class BudgetWebhook(ResponseModel):
    url: str
    format: Format = "plain"
    created_at: Instant


class CreatedWebhook(BudgetWebhook):
    secret: Annotated[
        str, Field(description="What its messages are signed with. It is in this response only.")
    ]


# -- of an endpoint --------------------------------------------------------------------------------


@operation(
    "GET",
    _ENDPOINT_PATH,
    name="getEndpointBudget",
    summary="The budget of a proxy endpoint, by its id or slug, and what was spent of it.",
    errors=_NO_ENDPOINT_BUDGET,
    reads_calls=True,
)
def get_endpoint_budget(context: Context[PartQuery]) -> Budget:
    return _get(context, context.id)


@operation(
    "PUT",
    _ENDPOINT_PATH,
    name="setEndpointBudget",
    summary="Set the budget of a proxy endpoint, by its id or slug.",
    errors=NO_ENDPOINT | FOR_OWNERS,
)
def set_endpoint_budget(context: Context[NewBudget]) -> Budget:
    return _put(context, context.id)


@operation(
    "DELETE",
    _ENDPOINT_PATH,
    name="deleteEndpointBudget",
    summary="Delete the budget of a proxy endpoint, by its id or slug.",
    errors=_NO_ENDPOINT_BUDGET | FOR_OWNERS,
)
def delete_endpoint_budget(context: Context[PartQuery]) -> Done:
    context.management.budgets.delete(context.caller, context.id, context.request.parse())
    return Done()


# -- of the organisation ---------------------------------------------------------------------------


@operation(
    "GET",
    "/budgets",
    name="listBudgets",
    summary="The budgets of your organisation and its endpoints, newest first.",
    reads_calls=True,
)
def list_budgets(context: Context[PageQuery]) -> BudgetPage:
    management = context.management.budgets
    page = management.list(context.caller, context.request.cursor, context.request.limit)
    items = [Budget.make(each) for each in management.read_statuses(page.items)]
    return BudgetPage(items=items, next_cursor=page.next_cursor, has_more=page.has_more)


@operation(
    "GET",
    _PATH,
    name="getBudget",
    summary="The budget of your organisation, and what was spent of it.",
    errors=_NO_BUDGET,
    reads_calls=True,
)
def get_budget(context: Context[PartQuery]) -> Budget:
    return _get(context, None)


@operation(
    "PUT",
    _PATH,
    name="setBudget",
    summary="Set the budget of your organisation, over all of its endpoints.",
    errors=FOR_OWNERS,
)
def set_budget(context: Context[NewBudget]) -> Budget:
    return _put(context, None)


@operation(
    "DELETE",
    _PATH,
    name="deleteBudget",
    summary="Delete the budget of your organisation. Those of its endpoints stay.",
    errors=_NO_BUDGET | FOR_OWNERS,
)
def delete_budget(context: Context[PartQuery]) -> Done:
    context.management.budgets.delete(context.caller, None, context.request.parse())
    return Done()


def _get(context: Context[PartQuery], endpoint: str | None) -> Budget:
    of = context.request.parse()
    return Budget.make(context.management.budgets.get(context.caller, endpoint, of))


def _put(context: Context[NewBudget], endpoint: str | None) -> Budget:
    new = context.request
    (of,) = [parse_part(*each) for each in new.of.items()] if new.of else [None]
    return Budget.make(
        context.management.budgets.put(
            context.caller,
            endpoint,
            period=new.period,
            limit_usd=new.limit_usd,
            action=new.action,
            warn_at=new.warn_at,
            of=of,
        )
    )


# -- the webhook -----------------------------------------------------------------------------------


@operation(
    "GET",
    _WEBHOOK_PATH,
    name="getBudgetWebhook",
    summary="Where budgets are reported to besides the owners' mail.",
    errors=_NO_WEBHOOK | FOR_OWNERS,
)
def get_webhook(context: Context[NoFields]) -> BudgetWebhook:
    webhook = context.management.budgets.find_webhook(context.caller)
    if webhook is None:
        raise NotFoundError("the organisation has no webhook")
    return BudgetWebhook.of(webhook)


@operation(
    "PUT",
    _WEBHOOK_PATH,
    name="setBudgetWebhook",
    summary="Set where budgets are reported to. Each time it gets a new secret.",
    errors=FOR_OWNERS,
)
def set_webhook(context: Context[NewWebhook]) -> CreatedWebhook:
    webhook = context.management.budgets.put_webhook(
        context.caller, context.request.url, context.request.format
    )
    return CreatedWebhook.of(webhook, secret=format_secret(webhook.secret))


@operation(
    "DELETE",
    _WEBHOOK_PATH,
    name="deleteBudgetWebhook",
    summary="Report budgets by mail alone.",
    errors=_NO_WEBHOOK | FOR_OWNERS,
)
def delete_webhook(context: Context[NoFields]) -> Done:
    context.management.budgets.delete_webhook(context.caller)
    return Done()
