"""Signals to a query process that cannot reach another process which got the same pid."""

import errno
import os
import select
import signal
import sys
from contextlib import suppress

from dashboard.queries.client import NotThereError

_UNSUPPORTED = {errno.ENOSYS, errno.EPERM}  # an old kernel, or a sandbox that refuses the call


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd of a process, or None if the system has no pidfds.

    Raises NotThereError if it has ended, OSError if no descriptors are left."""
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
    """Return a pidfd of the process at the other end of a connection, None if the system has no pidfds.

    A process that ends closes its connections before its pid can be reused, so an open connection proves
    that the pidfd is of that process. Raises NotThereError if it has ended."""
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
    """Kill a process, if it still exists."""
    send_signal(signal.SIGKILL, pid, pidfd)


def send_signal(number: signal.Signals, pid: int, pidfd: int | None) -> None:
    """Send a signal to a process, if it still exists. Without a ``pidfd`` the ``pid`` is used."""
    with suppress(ProcessLookupError):
        if pidfd is None or sys.platform != "linux":
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(pidfd, number)
