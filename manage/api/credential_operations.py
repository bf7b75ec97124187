"""The operations on names of credentials, and their models."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from manage.api.operation import Context, operation
from store.json_models import Done, Instant, Name, NoFields, RequestModel, ResponseModel

_PATH = "/credential-names/{id}"
_OWNERS = {HTTPStatus.FORBIDDEN: "Only an owner of the organisation may do this."}


class NewCredentialName(RequestModel):
    name: Name


class NamedCredential(ResponseModel):
    fingerprint: Annotated[
        str, Field(description="That of an upstream credential, or of the account of limits.")
    ]
    name: str
    created_at: Instant


class CredentialNames(ResponseModel):
    items: Sequence[NamedCredential]


@operation(
    "GET",
    "/credential-names",
    name="listCredentialNames",
    summary="The names of upstream credentials and subscriptions.",
)
def list_names(context: Context[NoFields]) -> CredentialNames:
    found = context.management.list_credential_names(context.caller)
    return CredentialNames(items=[NamedCredential.of(each) for each in found])


@operation(
    "PUT",
    _PATH,
    name="setCredentialName",
    summary="Name an upstream credential or a subscription, by its fingerprint.",
    errors=_OWNERS,
)
def set_name(context: Context[NewCredentialName]) -> NamedCredential:
    named = context.management.name_credential(context.caller, context.id, context.request.name)
    return NamedCredential.of(named)


@operation(
    "DELETE",
    _PATH,
    name="deleteCredentialName",
    summary="Remove the name of a credential. Its calls stay.",
    errors=_OWNERS | {HTTPStatus.NOT_FOUND: "Your organisation has not named that credential."},
)
def delete_name(context: Context[NoFields]) -> Done:
    context.management.unname_credential(context.caller, context.id)
    return Done()
