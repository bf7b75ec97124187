"""The limit on the address space of a process, above which it gets no more memory: Python then raises
MemoryError, and the process goes on.

macOS has no such limit that holds: a process has more address space than any from its beginning.
"""

import resource
import sys

_CAN_LIMIT = sys.platform != "darwin"
_NO_THREAD = "can't start new thread"  # for want of address space for its stack


def limit(most_bytes: int, *, for_good: bool = False) -> None:
    """Limit the address space of this process and of those that it starts. ``for_good``: none of them can
    take it back."""
    if _CAN_LIMIT:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        allowed = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed if for_good else hard))


def lift() -> None:
    """Take a limit back that was inherited."""
    if _CAN_LIMIT:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def is_used_up(error: Exception) -> bool:
    """Return whether an error says that there is no more memory."""
    return isinstance(error, MemoryError) or str(error) == _NO_THREAD
