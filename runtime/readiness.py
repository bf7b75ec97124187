"""A pipe on which a process tells the supervisor once that it is ready for its work.

A process is ready once a wrong setting or a broken installation can no longer prevent its work: it has
read its settings, opened its databases and locks, and its socket accepts connections. A later error is
a failure of the work, not of the start."""

import os
from contextlib import suppress

VARIABLE = "TAXIMETER_READY_FD"


def announce() -> None:
    """Tell the supervisor that this process is ready. Does nothing without a supervisor, or a second time."""
    text = os.environ.pop(VARIABLE, "")
    if not text.isdigit():
        return
    fd = int(text)
    with suppress(OSError):  # the supervisor is gone, and the parent watch ends this process
        os.write(fd, b"1")
        os.close(fd)
