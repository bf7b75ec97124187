"""Very many connections and requests of one client."""

import resource
import sys
from contextlib import ExitStack

import psutil
import pytest

from addon.holdings import MAX_OF_ADDRESS
from tests.live.service import Service
from tests.rawclient import request

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells the limits of another process; run it there"
)
def test_every_process_may_have_as_many_descriptors_as_the_system_allows(service: Service) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for name, pid in service.pids().items():
        assert psutil.Process(pid).rlimit(psutil.RLIMIT_NOFILE)[0] == hard, name


def test_one_client_address_has_only_so_many_requests_at_the_web_process(service: Service) -> None:
    up, web = psutil.Process(service.pid), psutil.Process(service.pids()["web"])
    page = request("GET", "/sign-in", [("Host", service.host)])
    with ExitStack() as stack:
        up.suspend()  # it would kill a web process that is silent for ten seconds
        web.suspend()
        try:
            clients = []
            for _ in range(MAX_OF_ADDRESS + 2):
                clients.append(stack.enter_context(service.connect()))
                clients[-1].send(page)  # at once: nobody may be silent for long
            service.wait_until(lambda: sum(bool(c.arrived()) for c in clients) == 2, "the refusals")
            refused = next(client for client in clients if client.arrived())
            response = refused.read_response()
        finally:
            web.resume()
            up.resume()
        assert (response.status, response.header("x-taximeter-error")) == (503, "web_busy")
        assert response.header("retry-after") == "1"
        clients.remove(refused)
        statuses = [client.read_response().status for client in clients]
        assert sorted(statuses) == [200] * MAX_OF_ADDRESS + [503]
        assert refused.exchange(page).status == 200  # its connection goes on, and slots are free


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux sets the limits of another process; run it there"
)
def test_idle_connections_give_way_to_new_clients_when_descriptors_run_short(
    service: Service,
) -> None:
    proxy = psutil.Process(service.pids()["proxy"])
    limits = proxy.rlimit(psutil.RLIMIT_NOFILE)
    limit = proxy.num_fds() + 150
    proxy.rlimit(psutil.RLIMIT_NOFILE, (limit, limits[1]))
    with ExitStack() as stack:
        stack.callback(proxy.rlimit, psutil.RLIMIT_NOFILE, limits)
        for _ in range(limit + 50):
            client = stack.enter_context(service.connect())
            assert client.exchange(LIVEZ).status == 200
        assert client.exchange(LIVEZ).status == 200  # not the one that has just come
    service.wait_until(lambda: "idle longest are closed" in service.output, "the line of the log")
    assert service.output.count("idle longest are closed") == 1
    assert "Traceback" not in service.output
