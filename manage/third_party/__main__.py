"""``python -m manage.third_party``: the process that notifies third-party extensions of stored calls.

No call and no entry passes through it, and it has a lower priority. At worst, an extension ends this
process, which is then restarted without the extension."""

import argparse
import logging
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from types import FrameType

import pluggy

from manage.third_party.calling import Calling
from manage.third_party.finding import Found, find, register
from manage.third_party.telling import HOOK, Teller, begin, open_positions
from runtime import hooks, logs, parent_watch, readiness
from runtime.setting import SettingsError
from runtime.settings import Settings
from runtime.trouble_log import TroubleLog

logger = logging.getLogger(__name__)

ROUND_S = 0.5
PATIENCE_S = 30.0
NICENESS = 10


def load(found: list[Found], calling: Calling) -> dict[str, pluggy.PluginManager]:
    """Return the plugin manager of each extension that can be loaded, by name. Raises OSError."""
    managers = {}
    for each in found:
        if calling.is_left_out(each.name):
            continue
        manager = pluggy.PluginManager(hooks.NAME)
        manager.add_hookspecs(hooks)
        with calling.noted(each.name, "loading"):
            register(manager, each)
            managers[each.name] = manager
    return managers


def run(tellers: list[Teller], stop: threading.Event) -> None:
    """Notify extensions of calls until ``stop`` is set."""
    trouble = TroubleLog(logger, "Extensions cannot be told of calls, which wait: %s")
    while not stop.is_set():
        try:
            for teller in tellers:
                teller.run_round(stop.is_set)
        except (sqlite3.Error, OSError) as error:
            trouble.report(str(error))
        else:
            trouble.clear()
        stop.wait(ROUND_S)


def try_loading(name: str, folder: Path | None) -> None:
    """Load an extension as this process would, and exit. If that fails, the reason is on standard error."""
    manager = pluggy.PluginManager(hooks.NAME)
    manager.add_hookspecs(hooks)
    try:
        for each in find(folder):
            if each.name == name:
                register(manager, each)
    except (Exception, SystemExit) as error:
        sys.exit(f"{type(error).__name__}: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m manage.third_party", description=__doc__)
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds for each call")
    parser.add_argument("--try", dest="name", help="load this extension, and end")
    parser.add_argument("--folder", type=Path, help="the folder of extensions, for --try")
    arguments = parser.parse_args()
    if arguments.name is not None:
        try_loading(arguments.name, arguments.folder)
        return
    logs.configure("extensions")
    sys.stdout = sys.stderr  # what an extension prints is for the log
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor orders the stop
    os.nice(NICENESS)
    try:
        settings = Settings.from_env()
    except SettingsError as error:
        sys.exit(f"taximeter: {error}")
    stop = threading.Event()

    def end(*_: int | FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    parent_watch.watch(end)
    found = find(settings.extensions)
    calling = Calling(settings.data_dir, found, arguments.patience)
    # Before any is loaded: what an extension does is no failure of the start.
    readiness.announce()
    begin(settings.data_dir, [each.name for each in found])
    with open_positions(settings.data_dir) as positions:
        tellers = []
        for name, manager in load(found, calling).items():
            if getattr(manager.hook, HOOK).get_hookimpls():
                tellers.append(Teller(settings.data_dir, positions, name, manager, calling))
        run(tellers, stop)


if __name__ == "__main__":
    main()
