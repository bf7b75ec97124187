"""The operations on retention rules and erasures, and their models."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Self

from pydantic import Field, create_model

from manage.api.operation import FOR_OWNERS, NO_ENDPOINT, Context, operation
from manage.api.validation import parse_instant
from store.control.data_removal import RetentionState
from store.control.erasures import describe
from store.control.retention import LIMITS, RetentionLimit, Rule
from store.copies import Progress
from store.json_models import Instant, NoFields, RequestModel, ResponseModel
from store.traces.maintenance.criteria import Criteria
from store.traces.maintenance.retention_preview import NOTHING


def _describe(limit: RetentionLimit) -> str:
    return f"{limit.about}{f', not more than {limit.within[0]}' if limit.within else ''}."


def _list_fields(limits: Sequence[RetentionLimit], unset: str | None = None) -> dict[str, Any]:
    """Return a field definition for each limit, by name, for ``pydantic.create_model``."""
    return {
        limit.name: (
            int | None,
            Field(
                default=None, description=_describe(limit) if unset is None else unset.format(limit)
            ),
        )
        for limit in limits
    }


_OF_ENDPOINTS = [limit for limit in LIMITS if limit.is_for_endpoints]
_Rule = create_model("_Rule", __base__=RequestModel, **_list_fields(LIMITS))
_RuleOfEndpoint = create_model(
    "_RuleOfEndpoint", __base__=RequestModel, **_list_fields(_OF_ENDPOINTS)
)
_InForce = create_model(
    "_InForce", __base__=ResponseModel, **_list_fields(LIMITS, "null: {0.unset}.")
)
_InForceOfEndpoint = create_model(
    "_InForceOfEndpoint",
    __base__=ResponseModel,
    **_list_fields(_OF_ENDPOINTS, "null: as the organisation."),
)


# The fields of these four are made from the limits that a rule may set.
class RetentionRule(_Rule):  # type: ignore[misc, valid-type]
    def make_rule(self) -> Rule:
        return Rule(**self.model_dump())


class EndpointRetentionRule(_RuleOfEndpoint):  # type: ignore[misc, valid-type]
    def make_rule(self) -> Rule:
        return Rule(**self.model_dump())


class EndpointRetention(_InForceOfEndpoint):  # type: ignore[misc, valid-type]
    @classmethod
    def make(cls, rule: Rule) -> Self:
        return cls(**{limit.name: getattr(rule, limit.name) for limit in _OF_ENDPOINTS})


class NextRun(ResponseModel):
    at: Instant
    entries: Annotated[int, Field(description="Calls that it is going to remove.")]
    texts: Annotated[int, Field(description="Calls that stay, whose texts it is going to remove.")]
    bytes: Annotated[int, Field(description="About how many bytes that frees.")]


class LastRun(ResponseModel):
    ended_at: Instant
    entries: int
    texts: int
    bytes: int


class Retention(_InForce):  # type: ignore[misc, valid-type]
    size_bytes: Annotated[int, Field(description="Size of what is in the database now.")] = 0
    next_run: Annotated[
        NextRun | None, Field(description="null while neither you nor an endpoint has a rule.")
    ] = None
    last_run: Annotated[LastRun | None, Field(description="null before the first.")] = None

    @classmethod
    def make(cls, state: RetentionState) -> Self:
        rule, run, preview = state.rule, state.run, state.preview or NOTHING
        return cls(
            **{limit.name: value for limit, value in rule.list_values()},
            size_bytes=preview.size_bytes,
            next_run=None
            if run is None
            else NextRun.of(preview, at=run.next_at, bytes=preview.freed_bytes),
            last_run=None
            if run is None or run.ended_at is None
            else LastRun.of(run, bytes=run.bytes_freed),
        )


class NewErasure(RequestModel):
    """The request for an erasure. A call is erased if it matches every field that is given."""

    session: Annotated[str | None, Field(description="A session id.")] = None
    credential: Annotated[
        str | None,
        Field(
            description="The fingerprint of an upstream credential, or of an account: that of a"
            " subscription stands for all its tokens."
        ),
    ] = None
    client: Annotated[str | None, Field(description="A client, with or without its version.")] = (
        None
    )
    endpoint: Annotated[str | None, Field(description="The id or slug of a proxy endpoint.")] = None
    since: Annotated[
        str | None, Field(alias="from", description="Calls that arrived then or later: ISO 8601.")
    ] = None
    until: Annotated[str | None, Field(description="Calls that arrived before: ISO 8601.")] = None
    dry_run: Annotated[bool, Field(description="Count these calls, and erase nothing.")] = False

    def make_criteria(self) -> Criteria:
        """Return the criteria for the calls to erase. Raises InvalidInputError."""
        return Criteria(
            session=self.session,
            credential=self.credential,
            client=self.client,
            endpoint=self.endpoint,
            since=parse_instant(self.since, "from"),
            until=parse_instant(self.until, "until"),
        )


class ErasedCopy(ResponseModel):
    """The state of an erasure on a node that keeps a copy of the calls."""

    copy_name: Annotated[str, Field(alias="copy", description="The copy: TAXIMETER_GROUP.")]
    node: Annotated[str, Field(description="The id of the node.")]
    address: Annotated[str | None, Field(description="Where the node is, if it is known.")]
    is_alive: Annotated[bool, Field(description="It was heard of in the last seconds.")]
    entries: int
    erased_at: Annotated[Instant | None, Field(description="When the calls were gone that it had.")]
    settled_at: Annotated[
        Instant | None, Field(description="When those were gone too that came to it later.")
    ]


class ErasureState(ResponseModel):
    id: Annotated[str | None, Field(description="null of a dry run.")]
    entries: Annotated[
        int,
        Field(
            description="Calls: those to erase, and those that were once erased_at is set. 0 until then"
            " where another node keeps them."
        ),
    ]
    set_aside: Annotated[
        int, Field(description="Files of the spool that cannot be read and may have such calls.")
    ] = 0
    erased_at: Annotated[
        Instant | None,
        Field(
            description="When the calls were gone that were recorded; of several copies, in all."
        ),
    ] = None
    ended_at: Annotated[
        Instant | None, Field(description="When those were gone too that were in flight.")
    ] = None
    ordered_at: Annotated[Instant | None, Field(description="null of a dry run.")] = None
    what: Annotated[str | None, Field(description="Kinds of criteria, until it has ended.")] = None
    copies: Annotated[
        Sequence[ErasedCopy], Field(description="Where there are several copies: these.")
    ] = ()
    unshipped: Annotated[
        Sequence[str],
        Field(description="Other proxy nodes that may have such calls in their spool."),
    ] = ()
    fingerprints: Annotated[
        Sequence[str],
        Field(
            description="Of a credential: all fingerprints of its account, whose calls are erased with it."
            " Only where it is counted or ordered."
        ),
    ] = ()

    @classmethod
    def make(cls, progress: Progress, entries: int | None = None) -> Self:
        erasure = progress.erasure
        return cls.of(
            erasure,
            entries=erasure.entries if entries is None else entries,
            what=None if erasure.criteria is None else describe(erasure.criteria),
            copies=[ErasedCopy.of(each, copy_name=each.copy) for each in progress.copies],
            unshipped=progress.unshipped,
        )


class OpenErasures(ResponseModel):
    items: Sequence[ErasureState]


@operation(
    "GET",
    "/retention",
    name="getRetention",
    summary="How long your organisation keeps calls, and what the next run is going to remove.",
    reads_calls=True,
)
def get_retention(context: Context[NoFields]) -> Retention:
    return Retention.make(context.management.removal.read_state(context.caller))


@operation(
    "PUT",
    "/retention",
    name="putRetention",
    summary="Set how long your organisation keeps calls. A field that is left out is null.",
    errors=FOR_OWNERS,
)
def put_retention(context: Context[RetentionRule]) -> Retention:
    removal = context.management.removal
    removal.write_rule(context.caller, context.request.make_rule())
    return Retention.make(removal.read_state(context.caller))


@operation(
    "GET",
    "/proxy-endpoints/{id}/retention",
    name="getProxyEndpointRetention",
    summary="How long the calls of one endpoint are kept, by its id or slug.",
    errors=NO_ENDPOINT,
)
def get_endpoint_retention(context: Context[NoFields]) -> EndpointRetention:
    rule = context.management.removal.read_rule(context.caller, context.id)
    return EndpointRetention.make(rule)


@operation(
    "PUT",
    "/proxy-endpoints/{id}/retention",
    name="putProxyEndpointRetention",
    summary="Set how long the calls of one endpoint are kept. A field that is left out is null.",
    errors=NO_ENDPOINT | FOR_OWNERS,
)
def put_endpoint_retention(context: Context[EndpointRetentionRule]) -> EndpointRetention:
    rule = context.request.make_rule()
    context.management.removal.write_rule(context.caller, rule, context.id)
    return EndpointRetention.make(rule)


@operation(
    "POST",
    "/erasures",
    name="createErasure",
    summary="Erase calls with their texts, or count them.",
    status=HTTPStatus.ACCEPTED,
    errors=FOR_OWNERS,
)
def create_erasure(context: Context[NewErasure]) -> ErasureState:
    criteria = context.request.make_criteria()
    removal = context.management.removal
    entries = removal.count_calls(context.caller, criteria)
    fingerprints = removal.list_fingerprints(context.caller, criteria)
    if context.request.dry_run:
        return ErasureState(id=None, entries=entries, fingerprints=fingerprints)
    erasure = removal.order_erasure(context.caller, criteria)
    state = ErasureState.make(removal.get_erasure(context.caller, erasure.id), entries)
    return state.model_copy(update={"fingerprints": fingerprints})


@operation(
    "GET",
    "/erasures",
    name="listErasures",
    summary="The erasures that have not ended, the oldest first.",
    errors=FOR_OWNERS,
)
def list_erasures(context: Context[NoFields]) -> OpenErasures:
    found = context.management.removal.list_erasures(context.caller)
    return OpenErasures(items=[ErasureState.make(each) for each in found])


@operation(
    "GET",
    "/erasures/{id}",
    name="getErasure",
    summary="How far an erasure is.",
    errors=FOR_OWNERS | {HTTPStatus.NOT_FOUND: "There is no such erasure in your organisation."},
)
def get_erasure(context: Context[NoFields]) -> ErasureState:
    return ErasureState.make(context.management.removal.get_erasure(context.caller, context.id))
