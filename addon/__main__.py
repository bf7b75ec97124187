"""``python -m addon``: mitmproxy with only the addons that this proxy needs.

``taximeter up`` starts it, and passes on a bound socket, memory that the workers share, and settings
in the environment; it also runs alone. SIGTERM stops it. SIGUSR1 stops it once its calls have ended,
without a deadline, while a successor accepts on the same socket."""

from runtime import loading

# isort: split

from addon import gentle_loading  # noqa: F401 - before all that is slow to load

# isort: split

import argparse
import asyncio
import gc
import signal
import socket
import sys
from functools import partial
from typing import Any

from addon import lean_mitmproxy  # noqa: F401 - before all that imports mitmproxy

# isort: split

from mitmproxy import master, options
from mitmproxy.addons import core, disable_h2c, errorcheck, proxyserver

from addon import mitmproxy_patches
from addon.connection_limit import ConnectionLimit
from addon.core import lean
from addon.core.reverse_mode import BoundSocket
from addon.http1.chooser import ChooseHttp1
from addon.http1.hook_table import HookTable
from addon.mitmproxy_patches import MitmproxyChangedError
from addon.process_config import ProcessConfig
from addon.proxy import UsageProxy
from runtime import logs, parent_watch
from runtime.settings import Settings, SettingsError
from runtime.shared_windows import SharedWindows
from runtime.worker_board import WorkerBoard

loading.finish()

# A connection leaves some hundred objects in cycles. By Python's own thresholds those of a thousand
# connections are collected at once, for which all others wait a tenth of a second, or several.
COLLECTIONS = (2_000, 4, 2)


class LeanMaster(master.Master):
    """A master with only the addons that this proxy needs."""

    def __init__(self, opts: options.Options, *ours: object) -> None:
        super().__init__(opts)
        mitmproxy_patches.read_directly()
        self.addons.add(
            core.Core(),
            disable_h2c.DisableH2C(),
            proxyserver.Proxyserver(),
            ChooseHttp1("nextlayer", HookTable(self.addons)),
            lean.UpstreamTls(),
            errorcheck.ErrorCheck(),
            *ours,
        )


async def serve(settings: Settings, config: ProcessConfig) -> None:
    """Serve until a signal stops the process. Raises MitmproxyChangedError."""
    opts = options.Options(confdir=str(settings.data_dir / "mitmproxy"))
    proxy = UsageProxy(settings, config)
    master_of_proxy = LeanMaster(opts, proxy)
    lean.fix_options(opts)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        proxy.draining.hurry()
        master_of_proxy.shutdown()

    def hand_over() -> None:
        proxy.draining.hand_over()
        master_of_proxy.shutdown()

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.add_signal_handler(signal.SIGUSR1, hand_over)
    parent_watch.watch(partial(loop.call_soon_threadsafe, stop))
    gc.collect()
    gc.freeze()  # what is here now stays; later collections need not walk it
    gc.set_threshold(*COLLECTIONS)
    await master_of_proxy.run()


def open_shared(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the memory shared by all workers, as keyword arguments of ``ProcessConfig.make``."""
    if arguments.board is None or arguments.windows_fd is None:
        return {}
    fd, row = arguments.board
    return {
        "board": WorkerBoard(fd, row, arguments.worker),
        "windows": SharedWindows(arguments.windows_fd),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m addon", description=__doc__)
    parser.add_argument("--listen-fd", type=int, help="a socket that is bound already")
    parser.add_argument("--web-port", type=int, help="where the web process listens on loopback")
    parser.add_argument("--name", default="proxy", help="the name of this process in logs")
    parser.add_argument("--worker", type=int, default=1, help="the number of this worker")
    parser.add_argument("--board", type=int, nargs=2, metavar=("FD", "ROW"), help="of all workers")
    parser.add_argument("--windows-fd", type=int, help="the windows of all workers")
    parser.add_argument("--check", action="store_true", help="only say whether mitmproxy will do")
    arguments = parser.parse_args()
    if arguments.check:
        _check_mitmproxy()
        return
    logs.configure(arguments.name)
    # A Ctrl-C reaches the supervisor, which orders the stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        sys.exit(f"taximeter: {error}")
    config = ProcessConfig.make(settings, arguments.web_port, **open_shared(arguments))
    if arguments.listen_fd is not None:
        listener = socket.socket(fileno=arguments.listen_fd)
        limit = ConnectionLimit(settings.client_connections, settings.trusted_proxies, config.board)
        mitmproxy_patches.listen_on(BoundSocket(listener, config.board, limit))
    _check_mitmproxy()
    asyncio.run(serve(settings, config))


def _check_mitmproxy() -> None:
    try:
        mitmproxy_patches.check()
    except MitmproxyChangedError as error:
        sys.exit(f"taximeter: {error}")


if __name__ == "__main__":
    main()
