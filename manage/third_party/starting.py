"""Preparation of third-party extensions at the start of the service."""

import sqlite3
from collections.abc import Callable, Sequence
from importlib import import_module

from manage.third_party.finding import find
from runtime import extension_states
from runtime.errors import StartError
from runtime.extension_values import ProcessSpec
from runtime.settings import Settings


def prepare(settings: Settings, warn: Callable[[str], None]) -> Sequence[ProcessSpec]:
    """Return the process that notifies extensions of calls, none if there are no extensions.

    A new extension gets calls from now on: its position is stored before the first call. The list of
    extensions that an earlier service disabled is cleared. Raises StartError, OSError."""
    if settings.extensions is not None and not settings.extensions.is_dir():
        raise StartError(
            f"TAXIMETER_EXTENSIONS={settings.extensions} is no folder: name one with Python files"
        )
    extension_states.forget(settings.data_dir)
    found = find(settings.extensions)
    if "recorder" not in settings.node.parts or not found:
        return ()
    try:
        # Few have such extensions, and what reads calls takes a tenth of the start to import.
        telling = import_module("manage.third_party.telling")
        telling.begin(settings.data_dir, [each.name for each in found])
    except (sqlite3.Error, OSError) as error:
        # The process does it too, later, and says what is wrong.
        warn(f"extensions.db cannot be written: {error}")
    return (ProcessSpec(name="extensions", module="manage.third_party"),)
