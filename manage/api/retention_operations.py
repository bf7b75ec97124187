"""The operations on what is kept and what is erased, and their models."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Self

from pydantic import Field

from manage.api.models import Instant, NoFields, RequestModel, ResponseModel
from manage.api.operation import Context, operation
from manage.api.validation import parse_instant
from store.control.data_removal import RetentionState
from store.control.erasures import describe
from store.control.retention import Rule
from store.copies import Progress
from store.traces.maintenance.erasing import Criteria
from store.traces.maintenance.retention_preview import NOTHING

_NO_ENDPOINT = {HTTPStatus.NOT_FOUND: "There is no such proxy endpoint in your organisation."}
_OWNERS = {HTTPStatus.FORBIDDEN: "Only an owner of the organisation may do this."}
_TEXT_DAYS = "Days for which bodies and titles are kept; not more than entry_days."
_ENTRY_DAYS = "Days for which calls are kept. Their hourly and daily sums stay."
_MAX_BYTES = "Size of the database above which the oldest calls are removed."


class RetentionRule(RequestModel):
    text_days: Annotated[int | None, Field(description=_TEXT_DAYS)] = None
    entry_days: Annotated[int | None, Field(description=_ENTRY_DAYS)] = None
    max_bytes: Annotated[int | None, Field(description=_MAX_BYTES)] = None


class EndpointRetentionRule(RequestModel):
    text_days: Annotated[int | None, Field(description=_TEXT_DAYS)] = None
    entry_days: Annotated[int | None, Field(description=_ENTRY_DAYS)] = None


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


class Retention(ResponseModel):
    text_days: Annotated[int | None, Field(description="null: texts are kept as their calls.")]
    entry_days: Annotated[int | None, Field(description="null: calls are kept.")]
    max_bytes: Annotated[int | None, Field(description="null: any size.")]
    size_bytes: Annotated[int, Field(description="Size of what is in the database now.")] = 0
    next_run: Annotated[
        NextRun | None, Field(description="null while neither you nor an endpoint has a rule.")
    ] = None
    last_run: Annotated[LastRun | None, Field(description="null before the first.")] = None

    @classmethod
    def make(cls, state: RetentionState) -> Self:
        rule, run, preview = state.rule, state.run, state.preview or NOTHING
        return cls(
            text_days=rule.text_days,
            entry_days=rule.entry_days,
            max_bytes=rule.max_bytes,
            size_bytes=preview.size_bytes,
            next_run=None
            if run is None
            else NextRun(
                at=run.next_at,
                entries=preview.entries,
                texts=preview.texts,
                bytes=preview.freed_bytes,
            ),
            last_run=None
            if run is None or run.ended_at is None
            else LastRun(
                ended_at=run.ended_at,
                entries=run.entries,
                texts=run.texts,
                bytes=run.bytes_freed,
            ),
        )


class EndpointRetention(ResponseModel):
    text_days: Annotated[int | None, Field(description="null: as the organisation.")]
    entry_days: Annotated[int | None, Field(description="null: as the organisation.")]


class NewErasure(RequestModel):
    """The calls to erase: those for which every field that is given holds."""

    session: Annotated[str | None, Field(description="A session id.")] = None
    credential: Annotated[
        str | None, Field(description="The fingerprint of an upstream credential.")
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
        """Return the criteria. Raises InvalidInputError."""
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

    @classmethod
    def make(cls, progress: Progress, entries: int | None = None) -> Self:
        erasure = progress.erasure
        return cls(
            id=erasure.id,
            entries=erasure.entries if entries is None else entries,
            set_aside=erasure.set_aside,
            erased_at=erasure.erased_at,
            ended_at=erasure.ended_at,
            ordered_at=erasure.ordered_at,
            what=None if erasure.criteria is None else describe(erasure.criteria),
            copies=[
                ErasedCopy(
                    copy_name=each.copy,
                    node=each.node,
                    address=each.address,
                    is_alive=each.is_alive,
                    entries=each.entries,
                    erased_at=each.erased_at,
                    settled_at=each.settled_at,
                )
                for each in progress.copies
            ],
            unshipped=progress.unshipped,
        )


class OpenErasures(ResponseModel):
    items: Sequence[ErasureState]


@operation(
    "GET",
    "/retention",
    name="getRetention",
    summary="How long your organisation keeps calls, and what the next run is going to remove.",
    request=NoFields,
    response=Retention,
)
def get_retention(context: Context[NoFields]) -> Retention:
    return Retention.make(context.management.removal.read_state(context.caller))


@operation(
    "PUT",
    "/retention",
    name="putRetention",
    summary="Set how long your organisation keeps calls. A field that is left out is null.",
    request=RetentionRule,
    response=Retention,
    errors=_OWNERS,
)
def put_retention(context: Context[RetentionRule]) -> Retention:
    given = context.request
    rule = Rule(text_days=given.text_days, entry_days=given.entry_days, max_bytes=given.max_bytes)
    removal = context.management.removal
    removal.write_rule(context.caller, rule)
    return Retention.make(removal.read_state(context.caller))


@operation(
    "GET",
    "/proxy-endpoints/{id}/retention",
    name="getProxyEndpointRetention",
    summary="How long the calls of one endpoint are kept, by its id or slug.",
    request=NoFields,
    response=EndpointRetention,
    errors=_NO_ENDPOINT,
)
def get_endpoint_retention(context: Context[NoFields]) -> EndpointRetention:
    rule = context.management.removal.read_rule(context.caller, context.id)
    return EndpointRetention(text_days=rule.text_days, entry_days=rule.entry_days)


@operation(
    "PUT",
    "/proxy-endpoints/{id}/retention",
    name="putProxyEndpointRetention",
    summary="Set how long the calls of one endpoint are kept. A field that is left out is null.",
    request=EndpointRetentionRule,
    response=EndpointRetention,
    errors=_NO_ENDPOINT | _OWNERS,
)
def put_endpoint_retention(context: Context[EndpointRetentionRule]) -> EndpointRetention:
    rule = Rule(text_days=context.request.text_days, entry_days=context.request.entry_days)
    context.management.removal.write_rule(context.caller, rule, context.id)
    return EndpointRetention(text_days=rule.text_days, entry_days=rule.entry_days)


@operation(
    "POST",
    "/erasures",
    name="createErasure",
    summary="Erase calls with their texts, or count them.",
    request=NewErasure,
    response=ErasureState,
    status=HTTPStatus.ACCEPTED,
    errors=_OWNERS,
)
def create_erasure(context: Context[NewErasure]) -> ErasureState:
    criteria = context.request.make_criteria()
    removal = context.management.removal
    if context.request.dry_run:
        return ErasureState(id=None, entries=removal.count_calls(context.caller, criteria))
    entries = removal.count_calls(context.caller, criteria)
    erasure = removal.order_erasure(context.caller, criteria)
    return ErasureState.make(removal.get_erasure(context.caller, erasure.id), entries)


@operation(
    "GET",
    "/erasures",
    name="listErasures",
    summary="The erasures that have not ended, the oldest first.",
    request=NoFields,
    response=OpenErasures,
    errors=_OWNERS,
)
def list_erasures(context: Context[NoFields]) -> OpenErasures:
    found = context.management.removal.list_erasures(context.caller)
    return OpenErasures(items=[ErasureState.make(each) for each in found])


@operation(
    "GET",
    "/erasures/{id}",
    name="getErasure",
    summary="How far an erasure is.",
    request=NoFields,
    response=ErasureState,
    errors=_OWNERS | {HTTPStatus.NOT_FOUND: "There is no such erasure in your organisation."},
)
def get_erasure(context: Context[NoFields]) -> ErasureState:
    return ErasureState.make(context.management.removal.get_erasure(context.caller, context.id))


OPERATIONS = (
    get_retention,
    put_retention,
    get_endpoint_retention,
    put_endpoint_retention,
    create_erasure,
    list_erasures,
    get_erasure,
)
