"""Replacements for functions of mitmproxy's reverse mode, for ``python -m addon`` alone."""

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mitmproxy.proxy import commands, context, events, layer, mode_servers

from addon.core.accepting import Acceptor, Doorkeeper
from addon.core.dispatch_table import DispatchTable
from runtime.worker_board import WorkerBoard

LARGEST_JOINED_BYTES = 64 * 1024

type TopLayerMaker = Callable[[mode_servers.ReverseInstance, context.Context], Any]
type Listen = Callable[[mode_servers.ReverseInstance, str, int], Awaitable[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A socket that is bound already, which all workers of the board accept on."""

    listener: socket.socket
    board: WorkerBoard
    doorkeeper: Doorkeeper


class InlineHooks:
    """Wraps the top layer of a client connection, and runs its hooks as they come up.

    What is sent between two hooks, such as a head and the body behind it, goes to its connection in one
    write: a small call takes two instead of four.

    mitmproxy makes a task of every hook, which then waits for its turn of the loop to report back;
    with some eight hooks a call that is an eighth of the proxy's time. A layer whose hook has run goes
    on at once; mitmproxy still gets the hooks that must be awaited."""

    def __init__(self, top: layer.Layer, table: DispatchTable) -> None:
        self.context = top.context
        self._top = top
        self._chooser: layer.Layer | None = top
        self._table = table

    def handle_event(self, event: events.Event) -> Iterator[commands.Command]:
        held: commands.SendData | None = None
        for command in self._top.handle_event(event):
            if isinstance(command, commands.SendData):
                if held is None:
                    held = command
                elif _belong_together(held, command):
                    held.data += command.data
                else:
                    yield held
                    held = command
                continue
            if held is not None and not isinstance(command, commands.Log):
                yield held  # also before a hook: what it is told of has been sent
                held = None
            if isinstance(command, commands.StartHook) and self._table.start(command):
                command.blocking = False  # the layer that yielded it goes on (``inline_hooks.py``)
            else:
                yield command
        if held is not None:
            yield held
        self._pass_by()

    def _pass_by(self) -> None:
        """Hand events to the layer that was chosen from now on, if one was: those that chose it would
        only pass them on."""
        if self._chooser is None:
            return
        below = getattr(self._chooser, "child_layer", None)
        if isinstance(below, layer.NextLayer) and below.layer is not None and below._handle:
            self._top, self._chooser = below.layer, None


def _belong_together(first: commands.SendData, second: commands.SendData) -> bool:
    """Return whether two pieces are sent in one write: below some size, copying them costs less than a
    second write."""
    return (
        first.connection is second.connection
        and len(first.data) + len(second.data) <= LARGEST_JOINED_BYTES
    )


def run_hooks_inline(original: TopLayerMaker, table: DispatchTable) -> TopLayerMaker:
    """Return a replacement for ``ReverseInstance.make_top_layer`` that puts ``InlineHooks`` on top."""

    def make_top_layer(self: mode_servers.ReverseInstance, here: context.Context) -> InlineHooks:
        return InlineHooks(original(self, here), table)

    return make_top_layer


def listen_on(_original: Listen, bound: BoundSocket) -> Listen:
    """Return a replacement for ``ReverseInstance.listen``, which serves a socket that is bound already.

    Whoever bound it keeps it across a restart of this process, so that clients wait in its backlog
    instead of being refused."""

    async def listen(
        self: mode_servers.ReverseInstance, _host: str, _port: int
    ) -> Sequence[Acceptor]:
        acceptor = Acceptor(bound.listener, bound.board, bound.doorkeeper, self.handle_stream)
        acceptor.start()
        return [acceptor]

    return listen
