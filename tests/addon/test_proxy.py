"""What the addon does about connections that end without a word from the core."""

import time

import pytest
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.test import taddons

from addon.exchange import Exchange, Phase
from addon.proxy import UsageProxy
from addon.wiring import Wiring
from runtime.settings import Settings
from store.spool import reader
from tests.addon.endpoints import ENDPOINT


@pytest.fixture
def proxy(tmp_path):
    settings = Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)})
    wiring = Wiring(web_port=None, client_token="t", fingerprint_key=b"key")
    with taddons.context(Proxyserver()):
        proxy = UsageProxy(settings, wiring)
        yield proxy
        proxy._spooler.close()


def crash(proxy, phase):
    """Leave an exchange behind whose connection is gone; return the outcomes in the spool after the
    next look."""
    exchange = Exchange(endpoint=ENDPOINT, logged=True, phase=phase)
    exchange.capture = proxy._spooler.open(ENDPOINT, exchange.arrived_at, (), b"{}", "/v1/messages")
    exchange.timed_out = phase
    proxy._exchanges["gone"] = exchange
    proxy._memory.hold("gone", 1000)
    proxy._close_overdue(time.monotonic())
    found = map(
        reader.read_exchange,
        (each.path for each in reader.find_waiting(proxy._spooler._root)),
    )
    return [exchange.ending.outcome for exchange in found if exchange]


@pytest.mark.parametrize("phase", [Phase.FIRST_BYTE, Phase.IDLE])
def test_an_exchange_whose_connection_is_gone_is_an_entry_and_holds_no_memory(proxy, phase):
    assert crash(proxy, phase) == ["client_disconnected"]
    assert proxy._exchanges == {}
    assert proxy._memory.total_bytes == 0


@pytest.mark.parametrize("phase", [Phase.REQUEST, Phase.CONNECT])
def test_an_exchange_that_was_never_sent_is_forgotten_with_its_connection(proxy, phase):
    assert crash(proxy, phase) == []
    assert proxy._exchanges == {}
    assert proxy._memory.total_bytes == 0
