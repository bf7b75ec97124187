"""The stacks of all threads of a process, written on its standard error at a signal.

They are written at once, even while the interpreter lock is held."""

import faulthandler
import signal

STACKS_SIGNAL = signal.SIGUSR2


def write_at_signal() -> None:
    """Install a handler that writes the stacks at each such signal."""
    faulthandler.register(STACKS_SIGNAL, all_threads=True)
