"""A pipe on which a process tells the supervisor, once, that it is ready for its work.

Ready means that nothing is left that a wrong setting or a broken installation could still prevent: the
settings are read, the databases or locks it needs are open, its socket is served. Work that fails
afterwards is a failure of that work and not of the start.
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
