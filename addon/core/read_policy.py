"""The questions that the layer and the patches ask the addon: how much may be read, and held."""

from typing import Protocol

from mitmproxy import http

from addon.request_heads import RequestHeads


class ReadPolicy(Protocol):
    """Decides how much is read from connections and held."""

    @property
    def heads(self) -> RequestHeads:
        """Return what decides about all that is not a body."""

    @property
    def largest_held_bytes(self) -> int:
        """Return the size beyond which a body is no longer held, but streamed."""

    def is_connecting(self, client_id: str) -> bool:
        """Return whether this client connection waits for an upstream connection."""

    def may_hold(self, flow: http.HTTPFlow, held_bytes: int) -> bool:
        """Return whether ``held_bytes`` of a request body may be held, and kill the flow where not."""

    def stop_holding(self, flow: http.HTTPFlow) -> None:
        """Note that a request body is streamed because of its size."""
