"""``python -m addon.forward``: the forward proxy of a run, in its own process.

The first line of standard input is a JSON document with upstream and service, the next one the process
id of the client. Standard output gets a line of JSON with address and certificate bundle once the
proxy listens, and another with counts of requests at the end. The proxy ends when standard input ends.
If the last line of input was not the one for a regular end, the run was killed: then the client, which
could reach nothing any more, is ended too."""

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from addon import lean_mitmproxy  # noqa: F401 - before all that imports mitmproxy

# isort: split

from mitmproxy import master, options
from mitmproxy.addons import core, proxyserver

from addon.forward import patches
from addon.forward.certificates import issue_certificate
from addon.forward.handing_over import parse_service
from addon.forward.proxy import USER, Counts, ForwardNextLayer, ForwardProxy, ForwardTls, Places
from addon.forward.trust import TrustFiles
from addon.mitmproxy_patches import MitmproxyChangedError
from runtime import clock
from runtime.http_proxies import UserProxies
from runtime.setting_values import parse_upstream

BYE = "end"
READ_BYTES = 4096


class Announcer:
    """Reports the port that the kernel has chosen, once the proxy listens."""

    def __init__(
        self, servers: proxyserver.Proxyserver, on_listening: Callable[[int], object]
    ) -> None:
        self._servers = servers
        self._on_listening = on_listening

    def running(self) -> None:
        (address, *_) = self._servers.listen_addrs()
        self._on_listening(int(address[1]))


class RunWatch:
    """Reads standard input: the client's process id, then the end of the run."""

    def __init__(self, on_end: Callable[[], object]) -> None:
        self._on_end = on_end
        self._buffer = b""
        self._signal_client: Callable[[int], None] | None = None
        self._has_ended = False

    def read(self) -> None:
        """Read and handle the lines that have arrived."""
        data = os.read(sys.stdin.fileno(), READ_BYTES)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            word = line.decode()
            if word == BYE:
                self._has_ended = True
            elif word.isdigit() and self._signal_client is None:
                self._signal_client = _hold(int(word))
        if not data or self._has_ended:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            if not self._has_ended and self._signal_client is not None:
                with suppress(OSError):
                    self._signal_client(signal.SIGTERM)
            self._on_end()


def _hold(pid: int) -> Callable[[int], None]:
    """Return the function that sends a signal to a process; it raises OSError.

    The function holds a descriptor of the process if the system gives one. The process id alone could be
    that of another process by then."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return partial(signal.pidfd_send_signal, os.pidfd_open(pid))
    return partial(os.kill, pid)


async def serve(told: Mapping[str, Any]) -> None:
    """Serve one run. ``told`` has the URLs ``upstream`` and ``service``.

    Raises OSError, ValueError, MitmproxyChangedError."""
    places = Places(
        upstream=parse_upstream(told["upstream"]),
        service=parse_service(told["service"]),
        user_proxies=UserProxies.of(os.environ),
    )
    issued = issue_certificate(places.upstream.host, clock.now())
    files = TrustFiles.write(os.environ, issued.authority_pem)
    counts, loop = Counts(), asyncio.get_running_loop()
    password = secrets.token_urlsafe(24)

    def begin(port: int) -> None:
        os.set_blocking(sys.stdin.fileno(), False)
        loop.add_reader(sys.stdin.fileno(), RunWatch(forward.shutdown).read)
        address = f"http://{USER}:{password}@127.0.0.1:{port}"
        _say({"address": address, "bundle": str(files.bundle)})

    try:
        patches.patch_responses()
        forward = master.Master(options.Options(confdir=str(files.folder)))
        servers = proxyserver.Proxyserver()
        forward.addons.add(
            core.Core(),
            servers,
            ForwardProxy(places, counts, str(files.roots), password),
            ForwardNextLayer(places, counts),
            ForwardTls(issued),
            Announcer(servers, begin),
        )
        loop.add_signal_handler(signal.SIGTERM, forward.shutdown)
        await forward.run()
    finally:
        files.remove()
    _say(asdict(counts))


def _say(document: Mapping[str, object]) -> None:
    with suppress(OSError):  # the run was killed
        print(json.dumps(document), flush=True)


def _read_line() -> bytes:
    """Return the first line of standard input, without reading beyond it."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        line += byte
    return line


def main() -> None:
    try:
        asyncio.run(serve(json.loads(_read_line())))
    except (OSError, ValueError, MitmproxyChangedError) as error:
        _say({"error": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()
