"""What people may do with endpoints, keys and users, whoever asks: the API, the command line.

No HTTP here and no sockets. Every method takes who is asking and stays within that one's
organisation; what changes something is written to the audit log in the same transaction. Refusals
are the errors of ``store.errors``.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path

from store import api_keys, audit, clock, endpoints, key_holders, people
from store.api_keys import ApiKey
from store.audit import Action, Details
from store.control import ControlDatabase
from store.endpoints import ProxyEndpoint, StreamingChange
from store.errors import ConflictError, InvalidInputError, NotFoundError
from store.pagination import DEFAULT_LIMIT, Page, read_page
from store.people import Member, Role
from store.settings import Streaming
from store.traces import trace_path
from store.usage_report import Grouping, UsageReport, read_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking, and for which organisation."""

    user_id: str
    organization_id: str
    role: Role


class Management:
    """Every method may also raise sqlite3.Error, where ``control.db`` cannot be used."""

    def __init__(
        self,
        control: ControlDatabase,
        data_dir: Path,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._control = control
        self._data_dir = data_dir
        self._now = now

    # -- who is asking ----------------------------------------------------------------------------

    def local_caller(self) -> Caller:
        """The local user of the first start, whom the command line acts for. Raises NotFoundError."""
        return self.find_caller(None)

    def find_caller(self, email: str | None) -> Caller:
        """The user with this address, in the organisation joined first. Raises NotFoundError."""
        return _caller(self._get_member(email))

    def authenticate(self, raw_key: str) -> Caller | None:
        """Whom this service API key stands for; None for one that is not good."""
        holder = key_holders.identify(self._control, raw_key, self._now())
        if holder is None:
            return None
        return Caller(
            user_id=holder.user_id, organization_id=holder.organization_id, role=holder.role
        )

    # -- proxy endpoints --------------------------------------------------------------------------

    def list_endpoints(
        self, caller: Caller, cursor: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> Page[ProxyEndpoint]:
        """Newest first. Raises InvalidInputError, InvalidCursorError."""
        with self._control.reading() as db:
            read = partial(endpoints.list_behind, db, caller.organization_id)
            return read_page("proxy_endpoints", cursor, limit, read)

    def get_endpoint(self, caller: Caller, id_or_slug: str) -> ProxyEndpoint:
        """Raises NotFoundError."""
        with self._control.reading() as db:
            return endpoints.get(db, caller.organization_id, id_or_slug)

    def create_endpoint(
        self,
        caller: Caller,
        name: str,
        slug: str | None = None,
        streaming: Streaming | None = None,
        *,
        metadata_only: bool = False,
    ) -> ProxyEndpoint:
        """Without ``slug`` one is made from the name. It works on the proxy when this returns.

        Raises InvalidInputError, InvalidSlugError, SlugTakenError."""
        with self._audited(caller) as (db, note):
            endpoint = endpoints.create(
                db, caller.organization_id, name, slug, streaming, metadata_only=metadata_only
            )
            note("endpoint.create", endpoint.id, _describe(endpoint))
            return endpoint

    def update_endpoint(
        self,
        caller: Caller,
        id_or_slug: str,
        *,
        name: str | None = None,
        streaming: StreamingChange | None = None,
        metadata_only: bool | None = None,
    ) -> ProxyEndpoint:
        """Change what is not None; ``streaming="service"`` follows the service's own setting again.

        Raises NotFoundError, InvalidInputError."""
        with self._audited(caller) as (db, note):
            endpoint = endpoints.update(
                db,
                caller.organization_id,
                id_or_slug,
                name=name,
                streaming=streaming,
                metadata_only=metadata_only,
            )
            note("endpoint.update", endpoint.id, _describe(endpoint))
            return endpoint

    def delete_endpoint(self, caller: Caller, id_or_slug: str) -> ProxyEndpoint:
        """Its traces stay and its slug stays reserved. It is refused on the proxy when this returns.

        Raises NotFoundError."""
        with self._audited(caller) as (db, note):
            endpoint = endpoints.delete(db, caller.organization_id, id_or_slug)
            note("endpoint.delete", endpoint.id, {"slug": endpoint.slug})
            return endpoint

    # -- service API keys -------------------------------------------------------------------------

    def list_keys(
        self, caller: Caller, cursor: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> Page[ApiKey]:
        """The caller's own, newest first. Raises InvalidInputError, InvalidCursorError."""
        with self._control.reading() as db:
            read = partial(api_keys.list_behind, db, caller.organization_id, caller.user_id)
            return read_page("api_keys", cursor, limit, read)

    def create_key(self, caller: Caller, name: str) -> tuple[ApiKey, str]:
        """The key and its raw form, which nobody can get again. Raises InvalidInputError."""
        with self._audited(caller) as (db, note):
            key, raw = api_keys.create(db, caller.organization_id, caller.user_id, name)
            note("key.create", key.id, {"name": key.name, "key_prefix": key.key_prefix})
            return key, raw

    def delete_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Raises ForbiddenError for a colleague's key, NotFoundError for any other's."""
        with self._audited(caller) as (db, note):
            key = api_keys.delete(db, caller.organization_id, caller.user_id, key_id)
            note("key.delete", key.id, {"name": key.name, "key_prefix": key.key_prefix})
            return key

    # -- usage ------------------------------------------------------------------------------------

    def usage(
        self,
        caller: Caller,
        by: Grouping = "day",
        from_day: date | None = None,
        to_day: date | None = None,
    ) -> UsageReport:
        """Totals of the caller's organisation; days are UTC and both inclusive.

        Raises InvalidInputError."""
        if from_day is not None and to_day is not None and from_day > to_day:
            raise InvalidInputError("from must not come after to", "from")
        return read_usage(trace_path(self._data_dir, caller.organization_id), by, from_day, to_day)

    # -- users, for the operator ------------------------------------------------------------------

    def list_users(self) -> Sequence[Member]:
        """Everybody, newest first; the local user has no address."""
        with self._control.reading() as db:
            return people.list_members(db)

    def create_user(
        self, email: str, organization_name: str | None = None, join: str | None = None
    ) -> Member:
        """A user with an organisation of their own, named for the address where no name is given; or
        with ``join`` (an id or a name) a member of one that is there.

        Raises InvalidInputError, ConflictError, NotFoundError."""
        with self._control.transaction() as db:
            user_id = people.create_user(db, email)
            if join is None:
                name = people.parse_email(email) if organization_name is None else organization_name
                organization = people.create_organization(db, name)
            else:
                organization = people.get_organization(db, join)
            people.join(db, organization.id, user_id, "owner" if join is None else "member")
            member = _get_member_in(db, user_id)
            details = {"email": member.email, "role": member.role}
            audit.write(db, organization.id, None, "user.create", user_id, details)
            return member

    def delete_user(self, email: str) -> Member:
        """With keys and sessions. The organisation, its endpoints and its traces stay.

        Raises NotFoundError, and ConflictError for the only owner of an organisation with members."""
        with self._control.transaction() as db:
            member = self._get_member(email)
            orphaned = people.find_orphaned(db, member.id)
            if orphaned is not None:
                raise ConflictError(
                    f"{email} is the only owner of {orphaned.name!r}, which has other members;"
                    " delete those first"
                )
            people.delete_user(db, member.id)
            details = {"email": member.email}
            audit.write(db, member.organization_id, None, "user.delete", member.id, details)
            return member

    # -- within -----------------------------------------------------------------------------------

    def _get_member(self, email: str | None) -> Member:
        with self._control.reading() as db:
            user_id = people.find_user(db, email)
            if user_id is None:
                raise NotFoundError(
                    f"there is no user {email}" if email else "there is no local user"
                )
            return _get_member_in(db, user_id)

    @contextmanager
    def _audited(
        self, caller: Caller
    ) -> Iterator[tuple[sqlite3.Connection, Callable[[Action, str, Details], None]]]:
        """A transaction, and what writes the audit log in it for the caller."""
        with self._control.transaction() as db:
            yield db, partial(audit.write, db, caller.organization_id, caller.user_id)


def _get_member_in(db: sqlite3.Connection, user_id: str) -> Member:
    member = people.find_member(db, user_id)
    if member is None:
        raise NotFoundError("this user is a member of no organisation")
    return member


def _caller(member: Member) -> Caller:
    return Caller(user_id=member.id, organization_id=member.organization_id, role=member.role)


def _describe(endpoint: ProxyEndpoint) -> Details:
    return {
        "name": endpoint.name,
        "slug": endpoint.slug,
        "streaming": endpoint.streaming,
        "metadata_only": endpoint.metadata_only,
    }
