"""Signals to a query process that never reach another process with the same pid."""

import errno
import os
import select
import signal
import sys
from contextlib import suppress

from dashboard.queries.client import NotThereError

_UNSUPPORTED = {errno.ENOSYS, errno.EPERM}  # an old kernel, or a sandbox that refuses the call


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor of a process, or None where the system has none.

    Raises NotThereError, or OSError when there are no descriptors left."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        if error.errno in {errno.ESRCH, errno.EINVAL}:
            raise NotThereError(f"process {pid} has ended") from error
        raise


def hold(pid: int, connected_fd: int) -> int | None:
    """Return a pidfd of the process at the other end of a connection.

    The end of a process closes its connections before its number is free for another. So while the
    connection stands, the descriptor is of that process."""
    pidfd = open_pidfd(pid)
    if is_hung_up(connected_fd):
        if pidfd is not None:
            os.close(pidfd)
        raise NotThereError(f"process {pid} has ended")
    return pidfd


def is_hung_up(connected_fd: int) -> bool:
    """Return whether the other end of a connection is closed."""
    poll = select.poll()
    poll.register(connected_fd, 0)
    return bool(poll.poll(0))


def kill_process(pid: int, pidfd: int | None) -> None:
    """End a process at once, if it is there."""
    send_signal(signal.SIGKILL, pid, pidfd)


def send_signal(number: signal.Signals, pid: int, pidfd: int | None) -> None:
    """Send a signal to a process, if it is there."""
    with suppress(ProcessLookupError):
        if pidfd is None or sys.platform != "linux":
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(pidfd, number)
