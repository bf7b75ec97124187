"""The questions that patches ask the addon: how much may be read from connections, and held."""

from typing import Protocol

from mitmproxy import http


class HeadPolicy(Protocol):
    """Decides how much of request heads may be held. Client connections are named by their ids."""

    @property
    def largest_bytes(self) -> int:
        """Return how large a head may be."""

    def count_too_large(self) -> None:
        """Note that a head was refused because of its size."""

    def hold(self, client_id: str, held_bytes: int) -> bool:
        """Return whether ``held_bytes`` that have come and are not dealt with yet may be held."""

    def await_rest(self, client_id: str) -> None:
        """Note that a head has begun and is not whole."""

    def is_whole(self, client_id: str) -> None:
        """Note that the head of this client's request is complete."""

    def forget(self, client_id: str) -> None:
        """Note that a connection has ended."""


class ReadPolicy(Protocol):
    """Decides how much is read from connections and held."""

    @property
    def heads(self) -> HeadPolicy:
        """Return the policy for what is not a body."""

    @property
    def largest_held_bytes(self) -> int:
        """Return the size beyond which a body is no longer held, but streamed."""

    def is_connecting(self, client_id: str) -> bool:
        """Return whether this client connection waits for an upstream connection."""

    def may_hold(self, flow: http.HTTPFlow, held_bytes: int) -> bool:
        """Return whether ``held_bytes`` of a request body may be held, and kill the flow where not."""

    def stop_holding(self, flow: http.HTTPFlow) -> None:
        """Note that a request body is streamed because of its size."""
