"""The contract with mitmproxy's addon that chooses layers."""

import pytest
from mitmproxy.addons import next_layer, proxyserver
from mitmproxy.connection import Client
from mitmproxy.proxy import context, layers, mode_specs
from mitmproxy.test import taddons

from addon.core.stock_addons import PlainHttpNextLayer

CLIENT_HELLO = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(194)


@pytest.fixture
def choose():
    """Returns the layer that an addon chooses for a client that begins with TLS."""

    def choose_by(addon):
        client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
        client.proxy_mode = mode_specs.ProxyMode.parse("reverse:http://127.0.0.1:3")
        with taddons.context(addon, proxyserver.Proxyserver()) as tctx:
            here = context.Context(client, tctx.options)
            layers.modes.ReverseProxy(here)
            return addon._next_layer(here, CLIENT_HELLO, b"")

    return choose_by


def test_the_stock_addon_still_looks_for_tls(choose):
    assert isinstance(choose(next_layer.NextLayer()), layers.ClientTLSLayer)


def test_whatever_a_client_sends_is_taken_for_http(choose):
    assert isinstance(choose(PlainHttpNextLayer()), layers.HttpLayer)
