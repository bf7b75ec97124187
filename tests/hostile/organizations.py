"""Organisations on the service that is attacked, each with a key and with calls of its own."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from metering.entry import UsageLogEntry
from store.control import people
from store.control.database import ControlDatabase
from store.control.management import Management
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from store.traces.search.indexer import Indexer
from tests.live.service import Service
from tests.rawclient import Response, request

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Organization:
    """An organisation and its key. It comes by a reverse proxy, from an address of its own."""

    service: Service
    key: str
    address: str

    def message(self, path: str) -> bytes:
        """Return the bytes of a request to the API."""
        headers = [
            ("Host", self.service.host),
            ("authorization", f"Bearer {self.key}"),
            ("x-forwarded-for", self.address),
        ]
        return request("GET", path, headers)

    def get(self, path: str) -> Response:
        return self.service.send(self.message(path))


def make_organization(service: Service, calls: Sequence[UsageLogEntry] = ()) -> Organization:
    """Return a new organisation with these calls, which can be searched."""
    number = next(_numbers)
    with ControlDatabase(service.data_dir / "control.db") as control:
        with control.transaction() as db:
            organization = people.create_organization(db, f"organization-{number}")
            user_id = people.create_user(db, f"owner-{number}@example.org")
            people.join(db, organization.id, user_id, "owner")
        caller = people.Caller(user_id=user_id, organization_id=organization.id, role="owner")
        key = Management(control, service.data_dir).create_key(caller, "any")[1]
    path = trace_path(service.data_dir, organization.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with TraceDatabase(path) as traces:
        traces.insert(calls)
        Indexer(traces.connection, time.monotonic).run(600)
    return Organization(service, key, f"203.0.113.{number}")


@contextmanager
def web_growth(service: Service) -> Iterator[list[int]]:
    """At the end of the block, the bytes by which the web process was larger than at its beginning."""
    growth: list[int] = []
    pid = service.pids()["web"]
    before = psutil.Process(pid).memory_info().rss
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # forgets the peak
    yield growth
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    growth.append(int(peak) * 1024 - before)
