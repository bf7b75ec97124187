"""Who asks for traces: a session's visitor or the holder of a service API key.

Asked anew for every request, so a session that was signed out and a key that was deleted are refused
at once. In a thread with a connection of its own: ``control.db`` may be locked for a while by whoever
writes, and the event loop must not wait with it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from store import clock, key_holders
from store.control import ControlDatabase
from store.sign_in import SignIn


def session_cookie(base_url: str) -> str:
    """Under https the prefix binds the cookie to this host and to TLS."""
    return "__Host-taximeter" if base_url.startswith("https:") else "taximeter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    organization_id: str
    user_id: str
    name: str


class Visitors:
    def __init__(
        self,
        control: ControlDatabase,
        executor: ThreadPoolExecutor,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._control = control
        self._executor = executor
        self._now = now

    @classmethod
    @contextmanager
    def open(cls, control_path: Path) -> Iterator["Visitors"]:
        """Raises sqlite3.Error, OSError."""
        with (
            ControlDatabase(control_path, any_thread=True) as control,
            ThreadPoolExecutor(1, thread_name_prefix="visitors") as executor,
        ):
            yield cls(control, executor)

    async def find(
        self, authorization: str | None, cookies: Mapping[str, str], cookie_name: str
    ) -> Asker | None:
        """A request with an Authorization header stands or falls with it. Raises sqlite3.Error."""
        loop = asyncio.get_running_loop()
        if authorization is not None:
            raw_key = key_holders.parse_bearer(authorization)
            if raw_key is None:
                return None
            return await loop.run_in_executor(self._executor, self._find_holder, raw_key)
        session = cookies.get(cookie_name)
        if session is None:
            return None
        return await loop.run_in_executor(self._executor, self._find_visitor, session)

    def _find_visitor(self, session: str) -> Asker | None:
        visitor = SignIn(self._control, self._now).find_visitor(session)
        if visitor is None:
            return None
        return Asker(
            organization_id=visitor.organization_id,
            user_id=visitor.user_id,
            name=visitor.email or "local user",
        )

    def _find_holder(self, raw_key: str) -> Asker | None:
        holder = key_holders.identify(self._control, raw_key, self._now())
        if holder is None:
            return None
        return Asker(
            organization_id=holder.organization_id, user_id=holder.user_id, name="service API key"
        )
