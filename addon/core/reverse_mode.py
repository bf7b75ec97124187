"""Replacements for functions of mitmproxy's reverse mode, for ``python -m addon`` alone."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mitmproxy.proxy import mode_servers

from addon.connection_limit import ConnectionLimit
from addon.core.accepting import Acceptor
from runtime.worker_board import WorkerBoard

type Listen = Callable[[mode_servers.ReverseInstance, str, int], Awaitable[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A bound socket on which all workers accept, with the board that they share."""

    listener: socket.socket
    board: WorkerBoard
    limit: ConnectionLimit


def listen_on(_original: Listen, bound: BoundSocket) -> Listen:
    """Return a replacement for ``ReverseInstance.listen`` that serves a socket which is bound already.

    The process that bound it keeps it across restarts of this one, so that clients wait in its backlog
    instead of being refused."""

    async def listen(
        self: mode_servers.ReverseInstance, _host: str, _port: int
    ) -> Sequence[Acceptor]:
        acceptor = Acceptor(bound.listener, bound.board, bound.limit, self.handle_stream)
        acceptor.start()
        return [acceptor]

    return listen
