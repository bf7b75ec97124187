"""Hostile queries against the whole service, from six organisations at once."""

import json
import selectors
import signal
from urllib.parse import quote, quote_plus

import psutil
import pytest

from store.control.database import ControlDatabase
from tests.dashboard.browsing import OURS, THEIRS, record
from tests.dashboard.people import Someone
from tests.rawclient import request

ATTACKERS = 6
REGEX = "/traces.json?sql=" + quote_plus("/**/" + " " * 30_000 + "x")
LARGE = "/traces.json?sql=" + quote(  # noqa: S608
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 15)"
    " select i, printf('%01000000d', i) as body from n"
)


class Person:
    """Somebody of an organisation of their own, with some calls recorded."""

    def __init__(self, service, control, name, marker):
        self._service = service
        self.someone = Someone(
            control,
            service.data_dir,
            f"{name}@example.org",
            base_url=f"http://{service.host}",
        )
        self.headers = [("Cookie", self.someone.cookie["cookie"])]
        record(self.someone.path, marker)

    def get(self, path, headers=()):
        return self._service.get(path, [*self.headers, *headers])


@pytest.fixture(scope="module")
def service(world):
    return world.service


@pytest.fixture(scope="module")
def people(service):
    with ControlDatabase(service.data_dir / "control.db") as control:
        victim = Person(service, control, "victim", THEIRS)
        attackers = [Person(service, control, f"attacker-{n}", OURS) for n in range(ATTACKERS)]
        return victim, attackers


def assert_everything_is_answered(service, victim):
    page = victim.get("/traces/usage.json")
    assert page.status == 200
    assert THEIRS.encode() in page.body
    assert victim.get("/traces/usage_log?_size=5").status == 200
    assert victim.get("/").status == 200
    assert service.get("/sign-in").status == 200
    assert service.get("/healthz").status == 200


def test_while_six_attackers_are_being_stopped_others_are_answered(service, people):
    victim, attackers = people
    connections = [service.connect() for _ in attackers]
    selector = selectors.DefaultSelector()
    try:
        for person, connection in zip(attackers, connections, strict=True):
            connection.send(request("GET", REGEX, [("Host", service.host), *person.headers]))
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        while not (answered := selector.select(0)):
            assert_everything_is_answered(service, victim)
        first = answered[0][0].data.read_response("GET")
    finally:
        selector.close()
        for connection in connections:
            connection.close()
    assert first.status == 400
    assert "stopped" in json.loads(first.body)["error"]["message"]


# Seven processes at the most, each with one response and what making it took.
MAX_GROWN_MB = 7 * 85


def test_responses_that_nobody_reads_hold_no_memory(service, people):
    victim, attackers = people
    before = memory_mb(service)
    readers = [service.connect() for _ in range(32)]
    try:
        for number, reader in enumerate(readers):
            attacker = attackers[2 + number % 2]
            reader.send(request("GET", LARGE, [("Host", service.host), *attacker.headers]))
        for _ in range(15):
            assert_everything_is_answered(service, victim)
            assert memory_mb(service) - before < MAX_GROWN_MB
    finally:
        for reader in readers:
            reader.close()


def memory_mb(service):
    """Return the memory of all children, without what processes share."""
    total = 0
    for process in psutil.Process(service.pid).children(recursive=True):
        try:
            total += process.memory_full_info().uss
        except psutil.NoSuchProcess:
            continue
    return total / 1e6


def test_no_client_can_say_who_it_is(service, people):
    victim, attackers = people
    forged = json.dumps({"organization_id": victim.someone.organization_id})
    answer = attackers[5].get("/traces/usage.json", [("X-Taximeter-Query", forged)])
    assert answer.status == 200
    assert OURS.encode() in answer.body
    assert THEIRS.encode() not in answer.body


def test_while_the_pool_is_away_tables_and_calls_are_missing_and_they_come_back(service, people):
    victim, _ = people
    newest = json.loads(victim.get("/traces/usage.json?_col=id&_size=1").body)["rows"][0][0]
    service.signal(signal.SIGSTOP)  # so that nobody starts another
    try:
        processes = list(map(psutil.Process, service.query_pids()))
        killed = service.kill9("queries")
        psutil.wait_procs(processes, timeout=60)
        answer = victim.get("/traces/usage", [("Accept", "text/html")])
        assert answer.status == 503
        assert b"Pages of calls and tables cannot be made at the moment." in answer.body
        assert int(answer.head.header("retry-after") or 0) > 0
        answer = victim.get(f"/calls/{newest}", [("Accept", "text/html")])
        assert answer.status == 503
        assert b"Pages of calls and tables cannot be made at the moment." in answer.body
        for path in ("/", "/settings/endpoints", "/sessions", f"/traces/usage/{newest}/request"):
            assert victim.get(path, [("Accept", "text/html")]).status == 200
    finally:
        service.signal(signal.SIGCONT)
    service.wait_restarted(killed)
    assert_everything_is_answered(service, victim)
