"""The operations on names of credentials and agents, and their models."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Self

from pydantic import Field

from manage.api.operation import FOR_OWNERS, Context, operation
from store.control.credential_names import CredentialName
from store.json_models import Done, Instant, Name, NoFields, RequestModel, ResponseModel
from store.traces.calls.credential_accounts import list_fingerprints

_PATH, _AGENT_PATH = "/credential-names/{id}", "/agent-names/{id}"


class NewCredentialName(RequestModel):
    name: Name


class NamedCredential(ResponseModel):
    fingerprint: Annotated[
        str, Field(description="That of an upstream credential, or of the account of limits.")
    ]
    name: str
    created_at: Instant
    account: Annotated[
        str | None,
        Field(
            description="The account of a subscription, which has this name with all its tokens."
        ),
    ] = None
    fingerprints: Annotated[
        Sequence[str],
        Field(description="Those of all tokens of the account, the oldest first."),
    ] = ()

    @classmethod
    def make(cls, named: CredentialName, accounts: Mapping[str, str]) -> Self:
        account = accounts.get(named.fingerprint)
        if account is None and named.fingerprint in accounts.values():
            account = named.fingerprint
        fingerprints = [] if account is None else list_fingerprints(accounts, account)
        return cls.of(named, account=account, fingerprints=fingerprints)


class CredentialNames(ResponseModel):
    items: Sequence[NamedCredential]


@operation(
    "GET",
    "/credential-names",
    name="listCredentialNames",
    summary="The names of upstream credentials and subscriptions.",
    reads_calls=True,
)
def list_names(context: Context[NoFields]) -> CredentialNames:
    found = context.management.names.list(context.caller)
    accounts = context.management.names.find_accounts(context.caller)
    return CredentialNames(items=[NamedCredential.make(each, accounts) for each in found])


@operation(
    "PUT",
    _PATH,
    name="setCredentialName",
    summary="Name an upstream credential or a subscription, by its fingerprint.",
    errors=FOR_OWNERS,
)
def set_name(context: Context[NewCredentialName]) -> NamedCredential:
    named = context.management.names.put(context.caller, context.id, context.request.name)
    return NamedCredential.make(named, context.management.names.find_accounts(context.caller))


@operation(
    "DELETE",
    _PATH,
    name="deleteCredentialName",
    summary="Remove the name of a credential. Its calls stay.",
    errors=FOR_OWNERS | {HTTPStatus.NOT_FOUND: "Your organisation has not named that credential."},
)
def delete_name(context: Context[NoFields]) -> Done:
    context.management.names.delete(context.caller, context.id)
    return Done()


# -- agents ----------------------------------------------------------------------------------------


class NamedAgent(ResponseModel):
    agent: Annotated[str, Field(description="The id of the agent, as calls have it.")]
    name: str
    created_at: Instant

    @classmethod
    def make(cls, named: CredentialName) -> Self:
        return cls.of(named, agent=named.fingerprint)


class AgentNames(ResponseModel):
    items: Sequence[NamedAgent]


@operation("GET", "/agent-names", name="listAgentNames", summary="The names of agents.")
def list_agent_names(context: Context[NoFields]) -> AgentNames:
    found = context.management.names.list(context.caller, "agent")
    return AgentNames(items=[NamedAgent.make(each) for each in found])


@operation(
    "PUT",
    _AGENT_PATH,
    name="setAgentName",
    summary="Name an agent, by its id.",
    errors=FOR_OWNERS,
)
def set_agent_name(context: Context[NewCredentialName]) -> NamedAgent:
    named = context.management.names.put(context.caller, context.id, context.request.name, "agent")
    return NamedAgent.make(named)


@operation(
    "DELETE",
    _AGENT_PATH,
    name="deleteAgentName",
    summary="Remove the name of an agent. Its calls stay.",
    errors=FOR_OWNERS | {HTTPStatus.NOT_FOUND: "Your organisation has not named that agent."},
)
def delete_agent_name(context: Context[NoFields]) -> Done:
    context.management.names.delete(context.caller, context.id, "agent")
    return Done()
