"""The extensions that come with the program: each a folder of ``extensions`` with a module ``plugin``.

They are loaded in every process, so a ``plugin`` imports little: declarations, and functions that import the
rest when they are called.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pluggy

from runtime import hooks


@cache
def load() -> pluggy.PluginManager:
    """Return the plugin manager with all extensions that come with the program, sorted by name."""
    manager = pluggy.PluginManager(hooks.NAME)
    manager.add_hookspecs(hooks)
    for each in sorted(iter_modules(import_module("extensions").__path__)):
        manager.register(import_module(f"extensions.{each.name}.plugin"), each.name)
    return manager


def list_folders() -> list[Path]:
    """Return the folders of the extensions that come with the program."""
    return [Path(str(module.__file__)).parent for module in load().get_plugins()]


def call() -> Any:
    """Return the relay of hooks. Each attribute calls one: ``call().settings()`` returns a list of
    results."""
    return load().hook
