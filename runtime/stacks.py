"""The stacks of all threads of a process on its standard error, at a signal.

They are written at once, also while something holds the interpreter.
"""

import faulthandler
import signal

STACKS_SIGNAL = signal.SIGUSR2


def write_at_signal() -> None:
    """Write the stacks whenever the signal comes."""
    faulthandler.register(STACKS_SIGNAL, all_threads=True)
