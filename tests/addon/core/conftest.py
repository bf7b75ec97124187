"""mitmproxy as it comes, and as it is patched."""

import pytest

from addon import mitmproxy_patches
from addon.http1 import chunked


class Policy:
    """Stands in for the addon, and notes what the patches tell it."""

    def __init__(self, heads):
        self.heads = heads
        self.connecting = set()
        self.told = []
        self.limit = 1 << 30
        self.largest_held_bytes = 1 << 30

    def is_connecting(self, client_id):
        return client_id in self.connecting

    def stop_holding(self, _flow):
        self.told.append("streamed")

    def may_hold(self, flow, held_bytes):
        self.told.append(held_bytes)
        if held_bytes > self.limit:
            flow.kill()
        return held_bytes <= self.limit


@pytest.fixture
def policy(heads):
    return Policy(heads)


@pytest.fixture
def patched(unpatched, policy, monkeypatch):
    monkeypatch.setattr(chunked, "rest", chunked.Rest())
    mitmproxy_patches.patch_core(policy)
