"""TCP relays that stand for links of a network, and can be cut, stalled and slowed."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Self

PIECE_BYTES = 64 * 1024
PATIENCE_S = 15.0

NOTHING: Mapping[bytes, bytes] = {}


class Relay:
    """A port of loopback that leads to another one, as long as the link is whole."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        target: int,
        replacements: Mapping[bytes, bytes],
    ) -> None:
        self._loop = loop
        self._target = target
        self._replacements = replacements
        self._is_cut = False
        self._delay_s = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    def cut(self) -> None:
        """Reset all connections, and each new one."""
        self._set(is_cut=True)

    def stall(self) -> None:
        """Let nothing pass, and say nothing of it."""
        self._set(flows=False)

    def slow(self, delay_s: float) -> None:
        """Let each piece pass later by so much."""
        self._set(delay_s=delay_s)

    def mend(self) -> None:
        """Let all pass again. What was sent to a stalled link arrives now."""
        self._set()

    def redirect(self, target: int) -> None:
        """Let new connections lead to another port. Those that are open lead where they did."""
        self._target = target

    def _set(self, *, is_cut: bool = False, flows: bool = True, delay_s: float = 0.0) -> None:
        async def change() -> None:
            self._is_cut, self._delay_s = is_cut, delay_s
            if flows:
                self._flows.set()
            else:
                self._flows.clear()
            if is_cut:
                self._reset_all()

        _run(self._loop, change())

    async def start(self) -> None:
        """Listen on a port that the kernel chooses."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End all connections, and listen no more. What is just being accepted begins before the server
        ends, since asyncio would leave its socket open, and ends as on a link that is cut."""
        self._is_cut = True
        self._flows.set()
        if self._server is not None:
            for listening in self._server.sockets:
                self._loop.remove_reader(listening.fileno())
            await asyncio.sleep(0)
            self._server.close()
        self._reset_all()

    def _reset_all(self) -> None:
        for writer in self._open:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        self._open.add(writer)
        try:
            await self._flows.wait()
            if self._is_cut:
                return
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(there_writer)
            self._open.add(there_writer)
            ways = [
                asyncio.ensure_future(self._pump(reader, there_writer)),
                asyncio.ensure_future(self._pump(there_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # nobody listens there: the connection ends
        finally:
            for each in writers:
                self._open.discard(each)
                each.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._flows.wait()
                for old, new in self._replacements.items():
                    data = data.replace(old, new)
                writer.write(data)
                await writer.drain()


class Relays:
    """Relays in a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays")
        self._relays: list[Relay] = []

    def add(self, target: int, replacements: Mapping[bytes, bytes] = NOTHING) -> Relay:
        """Return a relay to a port. What ``replacements`` names is replaced in what passes."""

        async def start() -> Relay:
            relay = Relay(self._loop, target, replacements)
            await relay.start()
            return relay

        relay = _run(self._loop, start())
        self._relays.append(relay)
        return relay

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for relay in self._relays:
            _run(self._loop, relay.close())
        _run(self._loop, _wait_for_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


async def _wait_for_all() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def _run[T](loop: asyncio.AbstractEventLoop, work: Coroutine[None, None, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)
