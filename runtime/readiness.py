"""A pipe on which a process tells the supervisor, once, that it is ready for its work.

A process is ready once a wrong setting or a broken installation can no longer prevent its work: its
settings are read, its databases and locks are open, its socket accepts connections. An error after
that is a failure of the work and not of the start.
"""

import os
from contextlib import suppress

VARIABLE = "TAXIMETER_READY_FD"


def announce() -> None:
    """Tell the supervisor that this process is ready. Does nothing without a supervisor, or twice."""
    text = os.environ.pop(VARIABLE, "")
    if not text.isdigit():
        return
    fd = int(text)
    with suppress(OSError):  # the supervisor is gone, and the parent watch ends this process
        os.write(fd, b"1")
        os.close(fd)
