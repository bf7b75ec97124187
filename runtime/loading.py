"""No collection of garbage while a program loads its modules: import this first.

Hardly anything of what is loaded is garbage, and to look through it again and again takes a tenth of the
processor time of a start. What is there at the end stays as long as the process, so it is never looked
through later either.
"""

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
    """Import modules with the lowest priority, where the environment asks for it.

    To load a program takes a third of a second of a processor. Where the processors are busy, the kernel
    shares them out among groups of processes, such as services, and one that loads gets most of what its
    group has: others of the group, which respond to clients meanwhile, were seen to wait for 0.4 s for a
    tenth of a millisecond. A process cannot raise its priority again, but on Linux each thread has one of
    its own. So a thread imports the modules and ends, and the main thread, which waited, has them."""
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
    """Collect garbage from now on, unless whoever imports this program had switched that off."""
    if _was_enabled:
        gc.freeze()
        gc.enable()
