"""The limit on the address space of a process, beyond which allocations fail.

Python then raises MemoryError, and the process goes on. On macOS nothing is limited: a process there
has a larger address space than any limit from its start."""

import resource
import sys

_CAN_LIMIT = sys.platform != "darwin"
_NO_THREAD = "can't start new thread"  # for want of address space for its stack


def limit(most_bytes: int, *, for_good: bool = False) -> None:
    """Limit the address space of this process, and of processes that it starts, to ``most_bytes``.

    ``for_good``: none of them can raise the limit again."""
    if _CAN_LIMIT:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        allowed = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed if for_good else hard))


def lift() -> None:
    """Raise an inherited limit as far as allowed."""
    if _CAN_LIMIT:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def is_used_up(error: Exception) -> bool:
    """Return whether an error means that no more memory could be allocated."""
    return isinstance(error, MemoryError) or str(error) == _NO_THREAD
