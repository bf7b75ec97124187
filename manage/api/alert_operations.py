"""The operations on rules for alerts, and their models."""

from http import HTTPStatus
from typing import Annotated, Self

from pydantic import Field

from manage.api.operation import FOR_OWNERS, Context, operation
from store.control.alert_management import RuleStatus
from store.control.alerts import MAX_THRESHOLD, Kind
from store.control.budgets import Format
from store.control.delivery_rows import Channel
from store.json_models import (
    Done,
    Instant,
    ListResponse,
    NoFields,
    RequestModel,
    ResponseModel,
)

_NO_ALERT = {HTTPStatus.NOT_FOUND: "There is no such alert in your organisation."}
_THRESHOLD = (
    "Dollars for costs, failed calls within an hour for errors, the used share (0.9) for window."
)
_Threshold = Annotated[
    float, Field(gt=0, le=MAX_THRESHOLD, allow_inf_nan=False, description=_THRESHOLD)
]


class NewAlert(RequestModel):
    kind: Annotated[
        Kind,
        Field(
            description="What it is about: an expensive session, failed calls within an hour, a window of"
            " a subscription, or an expensive day. It is sent once for each of them."
        ),
    ]
    threshold: _Threshold
    channel: Annotated[Channel, Field(description="To the owners by mail, or to a webhook.")] = (
        "mail"
    )
    format: Annotated[
        Format, Field(description="What a webhook takes: JSON of ours, or what Slack or Teams do.")
    ] = "plain"
    url: Annotated[
        str | None,
        Field(description="An https address; without it the webhook of the organisation."),
    ] = None


class AlertRule(ResponseModel):
    id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]
    kind: Kind
    threshold: Annotated[float, Field(description=_THRESHOLD)]
    channel: Channel
    format: Format
    url: Annotated[
        str | None,
        Field(description="null: the webhook of the organisation. Owners alone see the path."),
    ]
    created_at: Instant
    last_at: Annotated[
        Instant | None, Field(description="When it was made last, tests included; null: never.")
    ] = None
    last_delivered_at: Annotated[
        Instant | None, Field(description="When that was delivered; null: not yet, or given up.")
    ] = None
    last_error: Annotated[str | None, Field(description="What the last attempt failed with.")] = (
        None
    )

    @classmethod
    def make(cls, status: RuleStatus) -> Self:
        latest = status.latest
        return cls.of(
            status.rule,
            last_at=None if status.made is None else status.made.at,
            last_delivered_at=None if latest is None else latest.delivered_at,
            last_error=None if latest is None else latest.error,
        )


class AlertRules(ListResponse):
    """The response that lists all rules for alerts, on one page."""

    items: list[AlertRule]


@operation(
    "GET",
    "/alerts",
    name="listAlerts",
    summary="The alerts of your organisation: when they are sent, and where to.",
)
def list_alerts(context: Context[NoFields]) -> AlertRules:
    found = context.management.alerts.list(context.caller)
    return AlertRules(
        items=[AlertRule.make(each) for each in found], next_cursor=None, has_more=False
    )


@operation(
    "POST",
    "/alerts",
    name="createAlert",
    summary="Add an alert.",
    status=HTTPStatus.CREATED,
    errors=FOR_OWNERS,
)
def create_alert(context: Context[NewAlert]) -> AlertRule:
    new = context.request
    return AlertRule.make(
        context.management.alerts.create(
            context.caller,
            kind=new.kind,
            threshold=new.threshold,
            channel=new.channel,
            format=new.format,
            url=new.url,
        )
    )


@operation(
    "GET",
    "/alerts/{id}",
    name="getAlert",
    summary="An alert, and whether it was delivered last.",
    errors=_NO_ALERT,
)
def get_alert(context: Context[NoFields]) -> AlertRule:
    return AlertRule.make(context.management.alerts.find(context.caller, context.id))


@operation(
    "DELETE",
    "/alerts/{id}",
    name="deleteAlert",
    summary="Delete an alert, and what was sent of it.",
    errors=_NO_ALERT | FOR_OWNERS,
)
def delete_alert(context: Context[NoFields]) -> Done:
    context.management.alerts.delete(context.caller, context.id)
    return Done()


@operation(
    "POST",
    "/alerts/{id}/test",
    name="testAlert",
    summary="Send a test message to the recipients of an alert, within seconds. getAlert says whether it arrived.",
    errors=_NO_ALERT | FOR_OWNERS,
)
def send_test(context: Context[NoFields]) -> AlertRule:
    return AlertRule.make(context.management.alerts.test(context.caller, context.id))
