"""Management of endpoints, keys and members, for the API, the pages and the command line.

There is no HTTP here. Every method takes the caller and stays within the caller's organisation; a
change is written to the activity log in the same transaction. Refusals are the errors of
``runtime.errors``.
"""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Self

from metering.credential_names import KnownCredentials, spread_names
from metering.limit_windows import WindowState
from runtime import clock
from runtime.errors import ConflictError, InvalidInputError, NotFoundError
from runtime.setting_values import SERVICE_UPSTREAM, Upstream
from runtime.settings import Settings, Streaming
from runtime.webhook_rule import PUBLIC_ONLY, WebhookRule
from store.control import (
    api_keys,
    audit,
    credential_names,
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
from store.control.credential_names import CredentialName
from store.control.data_removal import DataRemoval
from store.control.database import ControlDatabase
from store.control.endpoints import ProxyEndpoint, StreamingChange, UpstreamChange
from store.control.invitations import Invitation
from store.control.people import Caller, Member, Organization
from store.control.run_management import RunManagement, check_run_id
from store.pagination import DEFAULT_LIMIT, Page, read_page
from store.spool.unrecorded import count_unrecorded
from store.traces.calls.call_list import CallPage, read_calls
from store.traces.calls.credential_accounts import read_accounts_of
from store.traces.calls.exported_object import ObjectPage, read_objects
from store.traces.calls.limit_readings import read_states_of
from store.traces.calls.one_call import BodyWish, OneCall, read_one_call
from store.traces.calls.reader import EntryFilter
from store.traces.calls.run_report import RunReport, read_run
from store.traces.paths import trace_path
from store.traces.search.query import parse_query
from store.traces.search.reader import Filter, Found, search_file
from store.traces.sessions.opened import Opened, open_session, read_file as read_session_file
from store.traces.sessions.session_list import Listed, SessionFilter, list_page
from store.traces.sums.forecast import Month
from store.traces.sums.month import read_file
from store.traces.sums.usage_report import Grouping, UsageReport, read_usage


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
        """Open the management of a service. ``max_endpoints`` bounds the endpoints of one
        organisation, ``webhook_rule`` the addresses of webhooks; ``prices`` is the operator's price
        file, ``upstreams`` the names of those that endpoints may have. ``find_upstream`` returns the one
        of a name, or that of the service."""
        self._control = control
        self._data_dir = data_dir
        self._now = now
        self._max_endpoints = max_endpoints
        self.prices = prices
        self.find_upstream = find_upstream
        self._upstreams = upstreams
        self.annotations = AnnotationManagement(control, data_dir)
        self.alerts = AlertManagement(control, data_dir, now, webhook_rule)
        self.budgets = BudgetManagement(control, data_dir, now, webhook_rule)
        self.removal = DataRemoval(control, data_dir, now)
        self.runs = RunManagement(control, now, find_upstream)

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
        """Return the local user of the first start, for whom the command line acts.

        Raises NotFoundError."""
        return self.find_caller(None)

    def find_caller(self, email: str | None, *, is_operator: bool = False) -> Caller:
        """Return the user with this address, in the organisation joined first.

        Raises NotFoundError.

        ``is_operator`` is true if the operator acts for this user; the activity log then names the
        operator."""
        with self._control.reading() as db:
            member = people.get_member(db, email)
        return Caller(
            user_id=member.id,
            organization_id=member.organization_id,
            role=member.role,
            is_operator=is_operator,
        )

    def authenticate(self, raw_key: str) -> Caller | None:
        """Return the holder of a service API key, or None for a key that is not valid."""
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
        """Return a page, newest first. Raises InvalidInputError, InvalidCursorError."""
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
        """Create an endpoint, or make the deleted one with this slug again.

        Without ``slug`` one is made from the name. ``metadata_only`` and ``upstream`` None: as the deleted
        one had them. ``upstream="service"`` is that of the service.

        The proxy serves it when this returns.

        Raises InvalidInputError, InvalidSlugError, SlugTakenError, LimitReachedError where the
        organisation has too many, and ForbiddenError as ``update_endpoint`` does."""
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
        """Change an endpoint; a field that is None stays as it is. ``streaming="service"`` follows
        the service's own setting again, and so does ``upstream="service"``.

        Raises NotFoundError, InvalidInputError, and ForbiddenError for a caller who is not an owner, where
        the endpoint has a budget or a rule of retention, or ``metadata_only`` or ``upstream`` is another
        one."""
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
        """Check that the caller may change both, None: leave them as they are. Raises ForbiddenError."""
        endpoint_guards.check_bodies(caller, endpoint, metadata_only)
        endpoint_guards.check_upstream(caller, endpoint, upstream)

    def _check_upstream(self, name: UpstreamChange | None) -> None:
        """Check that the operator allows an upstream. Raises InvalidInputError."""
        if name in (None, SERVICE_UPSTREAM) or name in self._upstreams:
            return
        known = ", ".join(sorted(self._upstreams)) or "none"
        raise InvalidInputError(
            f"there is no upstream {name!r}; the operator names them in TAXIMETER_UPSTREAMS ({known})",
            "upstream",
        )

    def delete_endpoint(self, caller: Caller, id_or_slug: str) -> ProxyEndpoint:
        """Delete an endpoint; its recorded calls stay, and its slug stays reserved.

        The proxy refuses it when this returns.

        Raises NotFoundError, and ForbiddenError for a caller who is not an owner, where the endpoint has a
        budget or a rule."""
        with audited(self._control, caller) as (db, note):
            before = endpoints.get(db, caller.organization_id, id_or_slug)
            endpoint_guards.check_change(db, caller, before, "delete")
            endpoint = endpoints.delete(db, caller.organization_id, before.id)
            note(endpoints.DELETED, endpoint.id, {"slug": endpoint.slug})
            return endpoint

    def find_guards(self, caller: Caller, id_or_slug: str) -> Sequence[str]:
        """Return what leaves changing and deleting an endpoint to owners. Raises NotFoundError."""
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
        """Return a page of the caller's own, newest first.

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

        Raises ForbiddenError for a colleague's key, NotFoundError for any other's."""
        with self._control.reading() as db:
            return api_keys.get(db, caller.organization_id, caller.user_id, key_id)

    def delete_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Delete a key of the caller.

        Raises ForbiddenError for a colleague's key, NotFoundError for any other's."""
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

        Owners remove anybody, others themselves.

        Raises ForbiddenError, NotFoundError, and ConflictError for the only owner."""
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

    # -- names of credentials ---------------------------------------------------------------------

    def list_credential_names(self, caller: Caller) -> Sequence[CredentialName]:
        """Return the names that the caller's organisation has given to credentials."""
        with self._control.reading() as db:
            return credential_names.list_of(db, caller.organization_id)

    def find_accounts(self, caller: Caller) -> Mapping[str, str]:
        """Return the accounts of credentials by fingerprint, none where they cannot be read now."""
        try:
            return read_accounts_of(self.trace_path_of(caller))
        except sqlite3.Error:
            return {}

    def find_credentials(self, caller: Caller) -> KnownCredentials:
        """Return the names and accounts of credentials."""
        accounts = self.find_accounts(caller)
        with self._control.reading() as db:
            names = credential_names.read_names(db, caller.organization_id)
        return KnownCredentials(spread_names(names, accounts), accounts)

    def name_credential(self, caller: Caller, fingerprint: str, name: str) -> CredentialName:
        """Name a credential or a subscription, in the place of the name that it had.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError, LimitReachedError."""
        require_owner(caller, "name a credential")
        with audited(self._control, caller) as (db, note):
            named = credential_names.write(db, caller.organization_id, fingerprint, name)
            note(credential_names.NAMED, fingerprint, {"name": named.name})
            return named

    def unname_credential(self, caller: Caller, fingerprint: str) -> None:
        """Remove the name of a credential.

        Raises ForbiddenError for a caller who is not an owner, NotFoundError."""
        require_owner(caller, "remove the name of a credential")
        with audited(self._control, caller) as (db, note):
            found = credential_names.delete(db, caller.organization_id, fingerprint)
            note(credential_names.UNNAMED, fingerprint, {"name": found.name})

    def list_agent_names(self, caller: Caller) -> Sequence[CredentialName]:
        """Return the names that the caller's organisation has given to agents."""
        with self._control.reading() as db:
            return credential_names.list_of(db, caller.organization_id, "agent")

    def name_agent(self, caller: Caller, agent_id: str, name: str) -> CredentialName:
        """Name an agent, in the place of the name that it had.

        Raises ForbiddenError for a caller who is not an owner, InvalidInputError, LimitReachedError."""
        require_owner(caller, "name an agent")
        with audited(self._control, caller) as (db, note):
            named = credential_names.write(db, caller.organization_id, agent_id, name, "agent")
            note(credential_names.AGENT_NAMED, agent_id, {"name": named.name})
            return named

    def unname_agent(self, caller: Caller, agent_id: str) -> None:
        """Remove the name of an agent.

        Raises ForbiddenError for a caller who is not an owner, NotFoundError."""
        require_owner(caller, "remove the name of an agent")
        with audited(self._control, caller) as (db, note):
            found = credential_names.delete(db, caller.organization_id, agent_id, "agent")
            note(credential_names.AGENT_UNNAMED, agent_id, {"name": found.name})

    # -- usage ------------------------------------------------------------------------------------

    def usage(
        self,
        caller: Caller,
        by: Grouping = "day",
        from_day: date | None = None,
        to_day: date | None = None,
    ) -> UsageReport:
        """Return the totals of the caller's organisation; days are UTC and both inclusive.

        Raises InvalidInputError."""
        check_period(from_day, to_day)
        return read_usage(self.trace_path_of(caller), by, from_day, to_day)

    def month(self, caller: Caller) -> Month:
        """Return what the current month cost the caller's organisation, and what is expected of it."""
        return read_file(self.trace_path_of(caller), clock.now())

    def search(self, caller: Caller, text: str, only: Filter, limit: int) -> Found:
        """Return what was said in the calls of the caller's organisation, newest first.

        Raises InvalidInputError."""
        path = self.trace_path_of(caller)
        return search_file(path, parse_query(text), only, limit)

    def list_calls(
        self,
        caller: Caller,
        only: EntryFilter,
        cursor: str | None,
        limit: int,
        *,
        with_bodies: bool,
    ) -> CallPage:
        """Return a page of the calls of the caller's organisation, the oldest first.

        Raises InvalidCursorError."""
        path = self.trace_path_of(caller)
        return read_calls(
            path, caller.organization_id, only, cursor, limit, with_bodies=with_bodies
        )

    def get_call(self, caller: Caller, text: str, wish: BodyWish | None) -> OneCall:
        """Return a call of the caller's organisation, by its id or that of its entry.

        ``wish`` is the part of a body that comes with it. Raises NotFoundError."""
        found = read_one_call(self.trace_path_of(caller), text, wish)
        if found is None:
            raise NotFoundError(f"there is no call {text!r}")
        return found

    def list_limits(self, caller: Caller) -> Sequence[WindowState]:
        """Return the windows of the subscriptions that the caller's organisation uses."""
        return read_states_of(self.trace_path_of(caller), clock.now())

    def list_objects(
        self, caller: Caller, only: EntryFilter, cursor: str | None, limit: int
    ) -> ObjectPage:
        """Return a page of the managed sessions and dreams of the caller's organisation.

        Raises InvalidCursorError."""
        path = self.trace_path_of(caller)
        return read_objects(path, caller.organization_id, only, cursor, limit)

    def list_sessions(
        self,
        caller: Caller,
        only: SessionFilter,
        cursor: str | None,
        limit: int,
        *,
        by_cost: bool = False,
    ) -> Listed:
        """Return a page of the sessions of the caller's organisation, or the most expensive ones.

        Raises InvalidCursorError."""
        return read_session_file(
            self.trace_path_of(caller),
            lambda reader: list_page(
                reader,
                limit,
                cursor,
                by_cost=by_cost,
                where=only.make_condition(),
                since=only.since,
            ),
        )

    def get_session(self, caller: Caller, session_id: str) -> Opened:
        """Return a session of the caller's organisation. Raises NotFoundError."""
        found = read_session_file(
            self.trace_path_of(caller), lambda reader: open_session(reader, session_id)
        )
        if found is None:
            raise NotFoundError(
                f"there is no session {session_id!r}: `taximeter sessions` lists them"
            )
        return found

    def run_usage(self, caller: Caller, run_id: str) -> RunReport:
        """Return the totals of one run in the caller's organisation, zeros where it made no call.

        Raises NotFoundError for what is not a run id."""
        check_run_id(run_id)
        # Counted before the entries are read: what is recorded in between is then in both, not in
        # neither.
        pending = count_unrecorded(self._data_dir / "spool", caller.organization_id, run_id)
        return read_run(self.trace_path_of(caller), run_id, pending)


def check_period(from_day: date | None, to_day: date | None) -> None:
    """Check that a period does not end before it begins. Raises InvalidInputError."""
    if from_day is not None and to_day is not None and from_day > to_day:
        raise InvalidInputError("from must not come after to", "from")


def _describe(endpoint: ProxyEndpoint) -> Details:
    return {
        "name": endpoint.name,
        "slug": endpoint.slug,
        "streaming": endpoint.streaming,
        "metadata_only": endpoint.metadata_only,
        "upstream": endpoint.upstream,
    }
