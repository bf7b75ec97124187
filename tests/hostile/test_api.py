"""Requests to the API that cost much, while another organisation uses it."""

import json
import sys
import threading
from contextlib import ExitStack

import psutil
import pytest

from tests.hostile.conftest import proxy_memory
from tests.hostile.organizations import make_organization, web_growth
from tests.live.service import Service
from tests.store.traces.search.conversation import response
from tests.store.traffic import make_entry

MEBI = 1 << 20
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells the peak of another process; run it on Linux"
)


def test_clients_do_not_read_a_large_body(service: Service) -> None:
    call = make_entry(response_body=b"\1" * (32 * MEBI))
    attacker, other = make_organization(service, [call]), make_organization(service, [make_entry()])
    with ExitStack() as stack, web_growth(service) as growth:
        clients = [stack.enter_context(service.connect()) for _ in range(5)]
        before = proxy_memory(service)
        for client in clients:
            client.send(attacker.message("/api/calls?bodies=yes&limit=1"))
        for client in clients:
            assert client.read_head().status == 200
        for _ in range(20):
            assert other.get("/api/calls").status == 200
        assert proxy_memory(service) - before < 64 * MEBI
    assert growth[0] < 96 * MEBI


def test_the_web_process_has_a_limit_of_memory(service: Service) -> None:
    web = psutil.Process(service.pids()["web"])
    assert web.rlimit(psutil.RLIMIT_AS)[0] == 1_500_000_000


def test_an_organization_searches_for_one_word_many_times(service: Service) -> None:
    text = response("word " * 40_000, "word " * 40_000)
    attacker = make_organization(service, [make_entry(response_body=text) for _ in range(4)])
    other = make_organization(service, [make_entry()])
    statuses: list[int] = []

    def search() -> None:
        statuses.append(attacker.get("/api/search?q=" + "+".join(["word"] * 64)).status)

    threads = [threading.Thread(target=search) for _ in range(6)]
    with web_growth(service) as growth:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert other.get("/api/calls").status == 200
        for thread in threads:
            thread.join()
    assert statuses == [200] * 6
    assert growth[0] < 64 * MEBI
    service.wait_until(  # a search that takes too long may have found nothing yet
        lambda: json.loads(attacker.get("/api/search?q=word").body)["items"], "what was found"
    )
