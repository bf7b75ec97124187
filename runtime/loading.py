"""No collection of garbage while a program loads its modules: import this first.

Hardly anything of what is loaded is garbage, and to look through it again and again takes a tenth of the
processor time of a start. What is there at the end stays as long as the process, so it is never looked
through later either.
"""

import gc

_was_enabled = gc.isenabled()
gc.disable()


def finish() -> None:
    """Collect garbage from now on, unless whoever imports this program had switched that off."""
    if _was_enabled:
        gc.freeze()
        gc.enable()
