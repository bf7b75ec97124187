"""Management of endpoints, keys and members, for the API, the pages and the command line.

Other parts are attributes: budgets, alerts, names, annotations, data removal and runs. There is no
HTTP here. Every method takes the caller and stays within the caller's organisation; a change is
written to the activity log in the same transaction. Refusals are the errors of ``runtime.errors``."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

from runtime import clock
from runtime.errors import ConflictError, InvalidInputError, NotFoundError
from runtime.setting_values import SERVICE_UPSTREAM, Upstream
from runtime.settings import Settings, Streaming
from runtime.webhook_rule import PUBLIC_ONLY, WebhookRule
from store.control import (
    api_keys,
    audit,
    endpoint_guards,
    endpoints,
    invitations,
    key_authentication,
    people,
)
from store.control.alert_management import AlertManagement
from store.control.annotation_management import AnnotationManagement
from store.control.api_keys import ApiKey
from store.control.audit import Details
from store.control.audited import audited, require_owner
from store.control.budget_management import BudgetManagement
from store.control.data_removal import DataRemoval
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint, StreamingChange, UpstreamChange
from store.control.invitations import Invitation
from store.control.name_management import NameManagement
from store.control.people import Caller, Member, Organization
from store.control.run_management import RunManagement
from store.pagination import DEFAULT_LIMIT, Page, read_page
from store.traces.paths import trace_path


class Management:
    """The operations on ``control.db``. Every method may also raise sqlite3.Error."""

    def __init__(
        self,
        control: ControlDatabase,
        data_dir: Path,
        now: Callable[[], datetime] = clock.now,
        max_endpoints: int | None = None,
        webhook_rule: WebhookRule = PUBLIC_ONLY,
        prices: Path | None = None,
        upstreams: Collection[str] = (),
        find_upstream: Callable[[str | None], Upstream | None] = lambda _: None,
    ) -> None:
        """Open the management of a service.

        ``max_endpoints`` limits the endpoints of one organisation, ``webhook_rule`` the addresses of
        webhooks. ``prices`` is the operator's price file. ``upstreams`` are the names of upstreams that
        endpoints may use, and ``find_upstream`` returns the upstream with a name (None: the service's)."""
        self._control = control
        self._data_dir = data_dir
        self._now = now
        self._max_endpoints = max_endpoints
        self.prices = prices
        self.find_upstream = find_upstream
        self._upstreams = upstreams
        self.annotations = AnnotationManagement(control, data_dir)
        self.alerts = AlertManagement(control, data_dir, now, webhook_rule)
        self.names = NameManagement(control, data_dir)
        self.budgets = BudgetManagement(control, data_dir, now, webhook_rule)
        self.removal = DataRemoval(control, data_dir, now)
        self.runs = RunManagement(control, data_dir, now, find_upstream)

    @classmethod
    def make(cls, control: ControlDatabase, settings: Settings) -> Self:
        """Return the management of a service with these settings."""
        return cls(
            control,
            settings.data_dir,
            max_endpoints=settings.max_endpoints,
            webhook_rule=settings.webhook_rule,
            prices=settings.prices,
            upstreams=settings.upstreams.keys(),
            find_upstream=settings.find_upstream,
        )

    def trace_path_of(self, caller: Caller) -> Path:
        """Return the path of the trace database of the caller's organisation."""
        return trace_path(self._data_dir, caller.organization_id)

    # -- who is asking ----------------------------------------------------------------------------

    def local_caller(self) -> Caller:
        """Return the local user of the first start, whom the command line acts for.

        Raises NotFoundError."""
        return self.find_caller(None)

    def find_caller(self, email: str | None, *, is_operator: bool = False) -> Caller:
        """Return the user with this address (None: the local user), in the organisation joined first.

        ``is_operator`` is true if the operator acts for this user; the activity log then names the
        operator. Raises NotFoundError."""
        with self._control.reading() as db:
            member = people.get_member(db, email)
        return Caller(
            user_id=member.id,
            organization_id=member.organization_id,
            role=member.role,
            is_operator=is_operator,
        )

    def authenticate(self, raw_key: str) -> Caller | None:
        """Return the owner of a service API key as a caller, or None if the key is not valid."""
        return key_authentication.identify(self._control, raw_key, self._now())

    # -- proxy endpoints --------------------------------------------------------------------------

    def list_endpoints(
        self,
        caller: Caller,
        cursor: str | None = None,
        limit: int = DEFAULT_LIMIT,
        *,
        finds_previous: bool = False,
    ) -> Page[ProxyEndpoint]:
        """Return a page of endpoints, newest first. Raises InvalidInputError, InvalidCursorError."""
        with self._control.reading() as db:
            read = partial(endpoints.list_after, db, caller.organization_id)
            return read_page("proxy_endpoints", cursor, limit, read, finds_previous=finds_previous)

    def get_endpoint(self, caller: Caller, id_or_slug: str) -> ProxyEndpoint:
        """Return an endpoint of the caller's organisation. Raises NotFoundError."""
        with self._control.reading() as db:
            return endpoints.get(db, caller.organization_id, id_or_slug)

    def create_endpoint(
        self,
        caller: Caller,
        name: str,
        slug: str | None = None,
        streaming: Streaming | None = None,
        *,
        metadata_only: bool | None = None,
        upstream: UpstreamChange | None = None,
    ) -> ProxyEndpoint:
        """Create an endpoint, or restore the deleted one with this slug.

        Without ``slug`` one is made from the name. If ``metadata_only`` or ``upstream`` is None, a
        restored endpoint keeps its value; ``upstream="service"`` is the upstream of the service. The
        proxy accepts calls for the endpoint when this returns. Raises InvalidInputError,
        InvalidSlugError, SlugTakenError, LimitReachedError if the organisation has too many endpoints,
        and ForbiddenError as ``update_endpoint`` does."""
        self._check_upstream(upstream)
        with audited(self._control, caller) as (db, note):
            if self._max_endpoints is not None:
                endpoints.check_count(db, caller.organization_id, self._max_endpoints)
            endpoint = endpoints.create(
                db,
                caller.organization_id,
                name,
                slug,
                streaming,
                metadata_only=metadata_only,
                upstream=upstream,
                check_earlier=lambda earlier: self._check_owner(
                    caller, earlier, metadata_only, upstream
                ),
            )
            note(endpoints.CREATED, endpoint.id, _describe(endpoint))
            return endpoint

    def update_endpoint(
        self,
        caller: Caller,
        id_or_slug: str,
        *,
        name: str | None = None,
        streaming: StreamingChange | None = None,
        metadata_only: bool | None = None,
        upstream: UpstreamChange | None = None,
    ) -> ProxyEndpoint:
        """Change an endpoint; a field that is None is unchanged.

        ``streaming="service"`` and ``upstream="service"`` use the service's own setting again. Raises
        NotFoundError, InvalidInputError, and ForbiddenError for a caller who is not an owner, if the
        endpoint has a budget or a rule of retention, or if ``metadata_only`` or ``upstream`` would
        change."""
        with audited(self._control, caller) as (db, note):
            before = endpoints.get(db, caller.organization_id, id_or_slug)
            endpoint_guards.check_change(db, caller, before, "change")
            self._check_owner(caller, before, metadata_only, upstream)
            if upstream != (before.upstream or SERVICE_UPSTREAM):
                self._check_upstream(upstream)
            endpoint = endpoints.update(
                db,
                caller.organization_id,
                id_or_slug,
                name=name,
                streaming=streaming,
                metadata_only=metadata_only,
                upstream=upstream,
            )
            note(endpoints.CHANGED, endpoint.id, _describe(endpoint))
            return endpoint

    def _check_owner(
        self,
        caller: Caller,
        endpoint: ProxyEndpoint,
        metadata_only: bool | None,
        upstream: UpstreamChange | None,
    ) -> None:
        """Check that the caller may set these fields (None leaves one unchanged). Raises ForbiddenError."""
        endpoint_guards.check_bodies(caller, endpoint, metadata_only)
        endpoint_guards.check_upstream(caller, endpoint, upstream)

    def _check_upstream(self, name: UpstreamChange | None) -> None:
        """Check that ``name`` is an upstream that the operator has configured. Raises InvalidInputError."""
        if name in (None, SERVICE_UPSTREAM) or name in self._upstreams:
            return
        known = ", ".join(sorted(self._upstreams)) or "none"
        raise InvalidInputError(
            f"there is no upstream {name!r}; the operator names them in TAXIMETER_UPSTREAMS ({known})",
            "upstream",
        )

    def delete_endpoint(self, caller: Caller, id_or_slug: str) -> ProxyEndpoint:
        """Delete an endpoint; its recorded calls stay, and its slug stays reserved.

        The proxy refuses its calls when this returns. Raises NotFoundError, and ForbiddenError for a
        caller who is not an owner, if the endpoint has a budget or a rule of retention."""
        with audited(self._control, caller) as (db, note):
            before = endpoints.get(db, caller.organization_id, id_or_slug)
            endpoint_guards.check_change(db, caller, before, "delete")
            endpoint = endpoints.delete(db, caller.organization_id, before.id)
            note(endpoints.DELETED, endpoint.id, {"slug": endpoint.slug})
            return endpoint

    def find_guards(self, caller: Caller, id_or_slug: str) -> Sequence[str]:
        """Return why only owners may change or delete an endpoint, such as ["a budget"].

        Raises NotFoundError."""
        with self._control.reading() as db:
            endpoint = endpoints.get(db, caller.organization_id, id_or_slug)
            return endpoint_guards.find(db, endpoint)

    # -- service API keys -------------------------------------------------------------------------

    def list_keys(
        self,
        caller: Caller,
        cursor: str | None = None,
        limit: int = DEFAULT_LIMIT,
        *,
        finds_previous: bool = False,
    ) -> Page[ApiKey]:
        """Return a page of the caller's own keys, newest first.

        Raises InvalidInputError, InvalidCursorError."""
        with self._control.reading() as db:
            read = partial(api_keys.list_after, db, caller.organization_id, caller.user_id)
            return read_page("api_keys", cursor, limit, read, finds_previous=finds_previous)

    def create_key(self, caller: Caller, name: str) -> tuple[ApiKey, str]:
        """Create a key; return it and its raw form, which cannot be read again.

        Raises InvalidInputError."""
        with audited(self._control, caller) as (db, note):
            key, raw = api_keys.create(db, caller.organization_id, caller.user_id, name)
            note(api_keys.CREATED, key.id, {"name": key.name, "key_prefix": key.key_prefix})
            return key, raw

    def get_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Return a key of the caller.

        Raises ForbiddenError for the key of another member, NotFoundError if the organisation has no such
        key."""
        with self._control.reading() as db:
            return api_keys.get(db, caller.organization_id, caller.user_id, key_id)

    def delete_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Delete a key of the caller.

        Raises ForbiddenError for the key of another member, NotFoundError if the organisation has no such
        key."""
        with audited(self._control, caller) as (db, note):
            key = api_keys.delete(db, caller.organization_id, caller.user_id, key_id)
            note(api_keys.DELETED, key.id, {"name": key.name, "key_prefix": key.key_prefix})
            return key

    # -- members ----------------------------------------------------------------------------------

    def list_members(self, caller: Caller) -> Sequence[Member]:
        """Return the members of the caller's organisation, in the order they joined."""
        with self._control.reading() as db:
            return people.list_members_of(db, caller.organization_id)

    def get_member(self, caller: Caller, user_id: str) -> Member:
        """Return a member of the caller's organisation. Raises NotFoundError."""
        with self._control.reading() as db:
            return people.get_member_of(db, caller.organization_id, user_id)

    def list_organizations(self, caller: Caller) -> Sequence[Organization]:
        """Return the organisations that the caller is a member of."""
        with self._control.reading() as db:
            return people.list_organizations_of(db, caller.user_id)

    def remove_member(self, caller: Caller, user_id: str) -> Member:
        """Remove a member; their keys and sessions end when this returns.

        Owners may remove anybody, other members only themselves. Raises ForbiddenError, NotFoundError,
        and ConflictError for the only owner."""
        if user_id != caller.user_id:
            require_owner(caller, "remove somebody else")
        with audited(self._control, caller) as (db, note):
            member = people.get_member_of(db, caller.organization_id, user_id)
            if member.role == "owner" and people.count_owners(db, caller.organization_id) == 1:
                raise ConflictError(
                    "an organisation needs an owner, and this member is the only one"
                )
            people.remove_member(db, caller.organization_id, user_id)
            note(people.MEMBER_REMOVED, user_id, {"email": member.email, "role": member.role})
            return member

    def list_invitations(self, caller: Caller) -> Sequence[Invitation]:
        """Return the open invitations into the caller's organisation, oldest first."""
        with self._control.reading() as db:
            return invitations.list_of(db, caller.organization_id, self._now())

    def list_invitations_for(self, email: str | None) -> Sequence[Invitation]:
        """Return the open invitations for a user, oldest first; none for the local user."""
        if email is None:
            return ()
        with self._control.reading() as db:
            return invitations.list_for(db, email, self._now())

    def invite(self, caller: Caller, email: str) -> Invitation:
        """Invite an address for a week; an earlier invitation is replaced.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError, ConflictError."""
        require_owner(caller, "invite somebody")
        with audited(self._control, caller) as (db, note):
            invited_by = people.get_member_of(db, caller.organization_id, caller.user_id).email
            invitation = invitations.create(
                db, caller.organization_id, email, invited_by, self._now()
            )
            note(invitations.SENT, invitation.id, {"email": invitation.email})
            return invitation

    def take_back_invitation(self, caller: Caller, invitation_id: str) -> Invitation:
        """Delete an invitation.

        Raises ForbiddenError for callers who are not owners, NotFoundError."""
        require_owner(caller, "take back an invitation")
        with audited(self._control, caller) as (db, note):
            invitation = invitations.delete(db, caller.organization_id, invitation_id)
            note(invitations.WITHDRAWN, invitation.id, {"email": invitation.email})
            return invitation

    def decline_invitation(self, email: str, invitation_id: str) -> None:
        """Decline an invitation for the address it was sent to. Raises NotFoundError."""
        with self._control.transaction() as db:
            invitation = invitations.find(db, invitation_id, email, self._now())
            if invitation is None:
                raise NotFoundError("this invitation has been withdrawn or has expired")
            invitations.delete(db, invitation.organization_id, invitation_id)
            details = {"email": invitation.email}
            user_id = people.find_user(db, email)
            audit.write(
                db,
                invitation.organization_id,
                user_id,
                invitations.DECLINED,
                invitation_id,
                details,
            )


def _describe(endpoint: ProxyEndpoint) -> Details:
    return {
        "name": endpoint.name,
        "slug": endpoint.slug,
        "streaming": endpoint.streaming,
        "metadata_only": endpoint.metadata_only,
        "upstream": endpoint.upstream,
    }
