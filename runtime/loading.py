"""Garbage collection switched off while a program loads its modules. Import this first.

Loading makes hardly any garbage, and collecting again and again takes a tenth of the processor time of
a start. The loaded objects live as long as the process, so they are excluded from later collections
too."""

import gc
import importlib
import os
import sys
import threading

GENTLY_VARIABLE = "TAXIMETER_LOAD_GENTLY"
LOWEST_PRIORITY = 19

_was_enabled = gc.isenabled()
gc.disable()


def load_gently(*names: str) -> None:
    """Import modules with the lowest priority, if the environment asks for that.

    Loading a program takes a third of a second of processor time. If processors are busy, the kernel
    shares them among groups of processes, such as services, and a loading process gets most of the
    share of its group: others of the group, which respond to clients meanwhile, were seen to wait 0.4
    s for a tenth of a millisecond. A process cannot raise its priority again, but on Linux each thread
    has its own. So a thread imports the modules and ends, and the main thread waits for it."""
    if os.environ.pop(GENTLY_VARIABLE, None) is None or sys.platform != "linux":
        return
    thread = threading.Thread(target=_load, args=names, name="loading")
    thread.start()
    thread.join()


def _load(*names: str) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)  # 0 is this thread
    for name in names:
        importlib.import_module(name)


def finish() -> None:
    """Switch garbage collection on again, unless it was off before this module was imported.

    Do nothing when it is on already."""
    if _was_enabled and not gc.isenabled():
        gc.freeze()
        gc.enable()
