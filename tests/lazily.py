"""Modules that are loaded when they are used, for what takes long and most workers do without."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


class LazyModule:
    """The names of a module, which is loaded when one of them is looked up for the first time."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(
            "_"
        ):  # pytest looks for marks of its own in all that a test file names
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


def import_lazily(name: str) -> LazyModule:
    """Return a module that loads itself when something of it is looked up for the first time."""
    if find_spec(name.partition(".")[0]) is None:  # to look below it would load it
        raise ModuleNotFoundError(f"there is no module {name}", name=name)
    return LazyModule(name)
