"""``python -m addon``: mitmproxy with only the addons this proxy needs.

Started by ``taximeter up``, which hands over a bound socket and what is in the environment; it runs
on its own as well.
"""

import argparse
import asyncio
import gc
import signal
import socket
import sys

from addon import lean_addons  # noqa: F401 - before all that imports mitmproxy

# isort: split

from mitmproxy import master, options
from mitmproxy.addons import core, disable_h2c, errorcheck, proxyserver

from addon import mitmproxy_patches
from addon.core.dispatch_table import DispatchTable
from addon.core.next_layer import PlainHttpNextLayer
from addon.core.patch import MitmproxyChangedError
from addon.core.upstream_tls import UpstreamTls
from addon.process_config import ProcessConfig
from addon.proxy import UsageProxy
from runtime import logs, parent_watch
from runtime.settings import Settings, SettingsError


class LeanMaster(master.Master):
    """A master with a dispatch table and only the addons that this proxy needs."""

    def __init__(self, opts: options.Options, *ours: object) -> None:
        super().__init__(opts)
        self.addons = table = DispatchTable(self)
        mitmproxy_patches.run_hooks_inline(table)
        self.addons.add(
            core.Core(),
            disable_h2c.DisableH2C(),
            proxyserver.Proxyserver(),
            PlainHttpNextLayer(),
            UpstreamTls(),
            errorcheck.ErrorCheck(),
            *ours,
        )


async def serve(settings: Settings, config: ProcessConfig) -> None:
    """Serve until told to stop. Raises MitmproxyChangedError."""
    opts = options.Options(confdir=str(settings.data_dir / "mitmproxy"))
    lean = LeanMaster(opts, UsageProxy(settings, config))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lean.shutdown)
    parent_watch.watch(lean.shutdown)
    gc.collect()
    gc.freeze()  # what is here now stays; later collections need not walk it
    await lean.run()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m addon", description=__doc__)
    parser.add_argument("--listen-fd", type=int, help="a socket that is bound already")
    parser.add_argument("--web-port", type=int, help="where the web process listens on loopback")
    arguments = parser.parse_args()
    logs.configure("proxy")
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a Ctrl-C reaches the supervisor, which orders the stop
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        sys.exit(f"taximeter: {error}")
    if arguments.listen_fd is not None:
        mitmproxy_patches.listen_on(socket.socket(fileno=arguments.listen_fd))
    config = ProcessConfig.make(settings, arguments.web_port)
    try:
        mitmproxy_patches.check()
    except MitmproxyChangedError as error:
        sys.exit(f"taximeter: {error}")
    asyncio.run(serve(settings, config))


if __name__ == "__main__":
    main()
