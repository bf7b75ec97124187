"""The program's name in what commands print: ``taximeter``, or ``./run.sh`` in a checkout."""

import os
from collections.abc import Mapping

CALLED_AS = "TAXIMETER_CALLED_AS"  # which run.sh sets
_NAME = "taximeter"


def find_name() -> str:
    """Return the command by which people call the program here."""
    return os.environ.get(CALLED_AS) or _NAME


def name_commands(text: str) -> str:
    """Return text with each command in it as people call it here."""
    return text.replace(f"`{_NAME} ", f"`{find_name()} ")


def without_name(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for another program, which has another name."""
    return {name: text for name, text in environ.items() if name != CALLED_AS}
