"""Authentication of requests: by a session cookie, or for traces by a service API key.

It is done for every request, so that a session that was signed out, a member who was removed and a key
that was deleted are refused at once.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from starlette.middleware import Middleware
from starlette.requests import Request

from metering.credential_names import spread_names
from runtime.attempts import AttemptLimit, client_network
from runtime.clock import now
from store.control import credential_names, key_authentication
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.control.sessions import Visitor
from store.control.sign_in import SignIn
from store.traces.calls.credential_accounts import read_accounts_of
from store.traces.paths import trace_path


def cookie_name(base_url: str, name: str = "taximeter") -> str:
    """Return the name of a cookie for the service at this base URL.

    Browsers send a cookie to every port of its host. Under https the prefix ``__Host-`` binds the cookie
    to the host and to TLS; otherwise its name contains the port, since one machine may run several
    services."""
    parts = urlsplit(base_url)
    return f"__Host-{name}" if parts.scheme == "https" else f"{name}-{parts.port or 80}"


def find_client(request: Request) -> str:
    """Return the IP address that a request came from, "" if it is not known."""
    return request.client.host if request.client else ""


class NotSignedInError(Exception):
    """Raised if nobody is signed in, or the credentials are invalid."""


class TooManyBadKeysError(Exception):
    """Raised if too many invalid keys came from an address, which must wait ``wait_s`` seconds."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"Too many invalid keys came from your address; wait {wait_s} s.")
        self.wait_s = wait_s


class ControlPool(Protocol):
    """Connections to ``control.db`` in threads."""

    async def run[T](self, work: Callable[[ControlDatabase], T], /) -> T:
        """Run a function in a thread, with a connection to ``control.db``. Raises what it raises."""


class Visitors:
    """Authenticates requests. ``clock_s`` is a monotonic clock."""

    def __init__(
        self,
        pool: ControlPool,
        base_url: str,
        bad_keys: AttemptLimit,
        data_dir: Path,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._data_dir = data_dir
        self._cookie = cookie_name(base_url)
        self._clock_s = clock_s
        self._bad_keys = bad_keys

    async def find(self, request: Request) -> Visitor | None:
        """Return the signed-in visitor of a request, or None. Raises sqlite3.Error."""
        session = request.cookies.get(self._cookie)
        if session is None:
            return None
        return await self._pool.run(lambda control: SignIn(control).find_visitor(session))

    async def require(self, request: Request) -> Visitor:
        """Return the signed-in visitor of a request. Raises NotSignedInError, sqlite3.Error."""
        visitor = await self.find(request)
        if visitor is None:
            raise NotSignedInError
        return visitor

    async def require_with[T](
        self, request: Request, read: Callable[[ControlDatabase, Visitor], T]
    ) -> tuple[Visitor, T]:
        """Return the signed-in visitor and the result of ``read`` for them, in one call of a thread.

        Raises NotSignedInError, sqlite3.Error and what ``read`` raises."""
        session = request.cookies.get(self._cookie)
        if session is None:
            raise NotSignedInError

        def work(control: ControlDatabase) -> tuple[Visitor, T]:
            visitor = SignIn(control).find_visitor(session)
            if visitor is None:
                raise NotSignedInError
            return visitor, read(control, visitor)

        return await self._pool.run(work)

    async def require_caller(self, request: Request) -> Caller:
        """Return the caller by the Authorization header, or without the header by the session.

        Raises NotSignedInError, TooManyBadKeysError, sqlite3.Error."""
        caller = await self.find_caller(request)
        if caller is not None:
            return caller
        if _find_key(request) is None:
            raise NotSignedInError
        raise self._refuse_key(request)

    async def find_caller(self, request: Request) -> Caller | None:
        """Return the caller, or None. Unlike ``require_caller``, it does not count invalid keys. Raises
        sqlite3.Error."""
        if "authorization" not in request.headers:
            return await self.find(request)
        raw_key = _find_key(request)
        if raw_key is None:
            return None
        return await self._pool.run(
            lambda control: key_authentication.identify(control, raw_key, now())
        )

    async def read_credential_names(self, caller: Caller) -> Mapping[str, str]:
        """Return the names of credentials of the caller's organisation, by fingerprint.

        Credentials of one account share its name, if the calls of the organisation are stored on this
        machine. The result is for ``metering.credential_names``. Raises sqlite3.Error."""

        def read(control: ControlDatabase) -> Mapping[str, str]:
            with control.reading() as db:
                names = credential_names.read_names(db, caller.organization_id)
            if not names:
                return names
            path = trace_path(self._data_dir, caller.organization_id)
            return spread_names(names, read_accounts_of(path))

        return await self._pool.run(read)

    async def check_caller(self, request: Request, caller: Caller) -> None:
        """Check that a request still has a caller of the same organisation as ``caller``.

        Raises NotSignedInError, TooManyBadKeysError, sqlite3.Error."""
        found = await self.require_caller(request)
        if found.organization_id != caller.organization_id:
            raise NotSignedInError

    def _refuse_key(self, request: Request) -> Exception:
        wait_s = self._bad_keys.count(client_network(find_client(request)), self._clock_s())
        return TooManyBadKeysError(wait_s) if wait_s else NotSignedInError()


def _find_key(request: Request) -> str | None:
    """Return the service API key of a request, None if it has none or several."""
    credentials = request.headers.getlist("authorization")
    return key_authentication.parse_bearer(credentials[0]) if len(credentials) == 1 else None


class StatedCallers(NamedTuple):
    """The callers of a machine that has no users: another machine of the service has authenticated them.
    ``middleware`` refuses requests without a valid statement of that machine."""

    visitors: Visitors
    middleware: Middleware
