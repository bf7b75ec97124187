"""The operations on the caller's organisation, and their models."""

from typing import Annotated

from pydantic import Field

from manage.api.operation import FOR_OWNERS, Context, operation
from store.json_models import NoFields, RequestModel, ResponseModel

_ZONE = "The name of a time zone, such as Europe/Berlin: budgets have its days and months, and pages show times in it."


class OrganizationChange(RequestModel):
    time_zone: Annotated[str, Field(description=_ZONE)]


class CurrentOrganization(ResponseModel):
    id: str
    name: str
    time_zone: Annotated[str, Field(description=_ZONE)]


@operation(
    "GET",
    "/organization",
    name="getOrganization",
    summary="Your organisation.",
)
def get_organization(context: Context[NoFields]) -> CurrentOrganization:
    member = context.management.get_member(context.caller, context.caller.user_id)
    return CurrentOrganization(
        id=member.organization_id,
        name=member.organization_name,
        time_zone=context.management.budgets.get_time_zone(context.caller),
    )


@operation(
    "PATCH",
    "/organization",
    name="updateOrganization",
    summary="Change the time zone of your organisation.",
    errors=FOR_OWNERS,
)
def update_organization(context: Context[OrganizationChange]) -> CurrentOrganization:
    context.management.budgets.set_time_zone(context.caller, context.request.time_zone)
    member = context.management.get_member(context.caller, context.caller.user_id)
    return CurrentOrganization(
        id=member.organization_id,
        name=member.organization_name,
        time_zone=context.request.time_zone,
    )
