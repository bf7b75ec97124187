"""The program's name in what commands print: ``taximeter``, or ``./run.sh`` in a checkout."""

import os
from collections.abc import Mapping

CALLED_AS = "TAXIMETER_CALLED_AS"  # which run.sh sets
_NAME = "taximeter"


def find_name() -> str:
    """Return the command by which the user calls the program: ``taximeter``, or ``./run.sh`` in a
    checkout."""
    return os.environ.get(CALLED_AS) or _NAME


def name_commands(text: str) -> str:
    """Return ``text`` with `` `taximeter …` `` replaced by the command that the user calls here."""
    return text.replace(f"`{_NAME} ", f"`{find_name()} ")


def without_name(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variable with our program's name, to start another program."""
    return {name: text for name, text in environ.items() if name != CALLED_AS}
