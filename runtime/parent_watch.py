"""The watch over the supervisor: its child processes end when a pipe from it is closed."""

import os
import threading
from collections.abc import Callable

VARIABLE = "TAXIMETER_PARENT_FD"


def inherited_fd() -> int | None:
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdigit() else None


def watch(on_end: Callable[[], object]) -> None:
    """Call ``on_end`` in a background thread once the supervisor has ended. Do nothing without a
    supervisor."""
    fd = inherited_fd()
    if fd is None:
        return

    def wait() -> None:
        while os.read(fd, 1024):
            pass
        on_end()

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
