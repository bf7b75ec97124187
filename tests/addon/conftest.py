import pytest

from addon import lean_mitmproxy  # noqa: F401 - before all that imports mitmproxy, as in the program

# isort: split

from mitmproxy import options
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy import context
from mitmproxy.test import taddons, tflow

from addon import headers, mitmproxy_patches
from addon.body_memory import BodyMemory
from addon.browsers import BrowserRules
from addon.core import head_bounds
from addon.draining import Draining
from addon.exchange import Exchange
from addon.exchanges import Exchanges
from addon.forward import patches
from addon.head_metadata import RequestMetadata, ResponseMetadata
from addon.process_config import ProcessConfig
from addon.request_heads import RequestHeads
from addon.responder import Responder
from addon.spooler import Spooler
from runtime import worker_board
from runtime.settings import Settings
from runtime.shared_windows import SharedWindows
from runtime.worker_board import WorkerBoard
from tests.addon.endpoints import ENDPOINT
from tests.addon.spooling import ARRIVED_AT
from tests.addon.stand_ins import StandInHandler

ORIGIN = "https://app.example"


@pytest.fixture
def unpatched(monkeypatch):
    """Puts every function back that another test may have replaced, and does so afterwards."""
    for patch in (*mitmproxy_patches.OF_SERVICE, *patches.RESPONSES):
        monkeypatch.setattr(patch.owner, patch.name, patch.original)


@pytest.fixture
def make_spooler(tmp_path):
    """Makes spoolers for the folder ``spool``, with so many bytes of disk reserve."""
    spoolers = []

    def make(disk_reserve=0):
        requests, responses = RequestMetadata(b"key", "acme"), ResponseMetadata("acme")
        spoolers.append(Spooler(tmp_path / "spool", disk_reserve, requests, responses))
        return spoolers[-1]

    yield make
    for spooler in spoolers:
        spooler.close()


@pytest.fixture
def spooler(make_spooler):
    return make_spooler()


@pytest.fixture
def open_capture():
    """Begins to capture a logged exchange; returns the capture, or None where that failed."""

    def open_one(spooler, body=b"{}", fields=(), endpoint=ENDPOINT, target="/v1/messages"):
        exchange = Exchange(
            endpoint=endpoint, arrived_at=ARRIVED_AT, target=target, record="messages"
        )
        spooler.capture(exchange, headers.index(fields), body)
        return exchange.capture

    return open_one


@pytest.fixture
def settings(tmp_path):
    return Settings.from_env(
        {
            "TAXIMETER_DATA_DIR": str(tmp_path),
            "TAXIMETER_ALLOWED_ORIGINS": ORIGIN,
            "TAXIMETER_DRAIN_SECONDS": "0",
        }
    )


@pytest.fixture
def config(board, windows):
    return ProcessConfig(
        web_port=1234, client_token="t", fingerprint_key=b"key", board=board, windows=windows
    )


@pytest.fixture
def proxyserver():
    """The addon of mitmproxy that knows the connections, which are none."""
    addon = Proxyserver()
    with taddons.context(addon):
        yield addon


@pytest.fixture
async def connect(proxyserver):
    """Makes client connections; returns their handlers."""
    handlers = []

    def connect_one(client=None):
        client = client or tflow.tclient_conn()
        handler = StandInHandler(context.Context(client, options.Options()))
        proxyserver.connections[client.id] = handler
        handlers.append(handler)
        return handler

    yield connect_one
    for handler in handlers:
        handler.close_all()


@pytest.fixture
def make_flow():
    """Makes flows whose request head has come."""

    def make(method="POST", path="/proxy/default/v1/messages", headers=(), content=b""):
        flow = tflow.tflow()
        flow.request.method, flow.request.path = method, path
        flow.request.headers.fields = tuple(
            (name.encode(), value.encode()) for name, value in (("host", "localhost"), *headers)
        )
        flow.request.data.content = content
        return flow

    return make


@pytest.fixture
def board():
    return WorkerBoard.alone()


@pytest.fixture
def boards():
    """The boards of two workers of one service."""
    fd = worker_board.create(1)
    return [WorkerBoard(fd, row) for row in range(2)]


@pytest.fixture
def windows():
    windows = SharedWindows.alone()
    yield windows
    windows.close()


@pytest.fixture
def memory(settings, board):
    return BodyMemory(settings.request_memory, board)


@pytest.fixture
def exchanges(memory, board):
    return Exchanges(memory, board)


@pytest.fixture
def heads(memory):
    return RequestHeads(memory, WorkerBoard.alone(), head_bounds.MAX_HEAD_BYTES)


@pytest.fixture
def draining():
    return Draining(patience_s=0.0)


@pytest.fixture
def browser_rules(settings):
    return BrowserRules(settings.allowed_origins, settings.vendor, "localhost")


@pytest.fixture
def responder(browser_rules, draining):
    return Responder(browser_rules, draining)
