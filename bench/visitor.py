"""A signed-in person, on one connection to the front door."""

import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from bench.load import HOST, BenchError
from dashboard.visitors import cookie_name
from store.control import people
from store.control.database import ControlDatabase
from store.control.sign_in import SignIn
from store.traces.paths import trace_path


class Visitor:
    """A signed-in person of an organisation of their own, on a connection that stays open."""

    def __init__(
        self, control: ControlDatabase, data_dir: Path, name: str, address: str = ""
    ) -> None:
        with control.transaction() as db:
            organization = people.create_organization(db, name)
            user_id = people.create_user(db, f"{name}@example.org")
            people.join(db, organization.id, user_id, "owner")
        self._session = SignIn(control).sign_in(f"{name}@example.org")
        self._headers = {"accept": "text/html"}
        if address:  # of a person who comes through a reverse proxy
            self._headers["x-forwarded-for"] = address
        self._connection: HTTPConnection | None = None
        self.path = trace_path(data_dir, organization.id)

    def make_headers(self, port: int) -> dict[str, str]:
        """Return the headers of this person's requests to the service on a port."""
        name = cookie_name(f"http://{HOST}:{port}")
        return self._headers | {"cookie": f"{name}={self._session}"}

    def connect(self, port: int) -> None:
        self._connection = HTTPConnection(HOST, port, timeout=120)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def time_page(self, path: str, wanted: int = 200, has: bytes = b"") -> float:
        """Return the milliseconds that a page takes.

        Raises BenchError for a status other than ``wanted``, or a page without the text ``has``."""
        if self._connection is None:
            raise BenchError("not connected")
        started_s = time.perf_counter()
        try:
            headers = self.make_headers(self._connection.port)
            self._connection.request("GET", path, headers=headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, HTTPException) as error:
            raise BenchError(f"{path}: {error!r}") from error
        took_ms = (time.perf_counter() - started_s) * 1000
        if response.status != wanted:
            raise BenchError(f"{path} responded with {response.status}")
        if has not in body:
            raise BenchError(f"{path} is without {has.decode()}")
        return took_ms
