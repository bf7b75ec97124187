"""The interface by which the layer and the patches ask the addon how much may be read and held."""

from typing import Protocol

from mitmproxy import http

from addon.request_heads import RequestHeads


class ReadPolicy(Protocol):
    """Decides how much is read from connections and held in memory."""

    @property
    def heads(self) -> RequestHeads:
        """Return the object that limits the heads of requests."""

    @property
    def largest_held_bytes(self) -> int:
        """Return the size in bytes above which a request body is streamed instead of held."""

    def is_connecting(self, client_id: str) -> bool:
        """Return whether a client connection waits for an upstream connection."""

    def may_hold(self, flow: http.HTTPFlow, held_bytes: int) -> bool:
        """Return whether ``held_bytes`` of a request body may be held; if not, kill the flow."""

    def stop_holding(self, flow: http.HTTPFlow) -> None:
        """Note that a request body is streamed because of its size."""
