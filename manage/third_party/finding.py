"""Finding third-party extensions: entry points of the group ``taximeter``, and files in a folder."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pluggy

from runtime import hooks

HOOKS = frozenset({"calls_were_stored", "commands"})


class ExtensionError(Exception):
    """An extension cannot be used. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Found:
    """An extension that was found. ``load`` imports it, and raises what its module raises."""

    name: str
    origin: str
    load: Callable[[], ModuleType]


def find(folder: Path | None) -> list[Found]:
    """Return the installed extensions and those in ``folder``, without importing any.

    Of several extensions with one name only the first is returned."""
    found: dict[str, Found] = {}
    for each in (*_find_installed(), *_find_files(folder)):
        found.setdefault(each.name, each)
    return list(found.values())


def register(manager: pluggy.PluginManager, found: Found) -> None:
    """Load an extension and register its hooks. Raises ExtensionError, and what its module raises."""
    before = set(manager.get_plugins())
    manager.register(found.load(), found.name)
    (plugin,) = set(manager.get_plugins()) - before
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        manager.unregister(plugin)
        raise ExtensionError(f"there is no such hook: {error}") from None
    implemented = {each.name for each in manager.get_hookcallers(plugin) or ()}
    if others := implemented - HOOKS:
        manager.unregister(plugin)
        names = ", ".join(sorted(others))
        raise ExtensionError(f"only extensions that come with Taximeter may implement {names}")


def _find_installed() -> Iterator[Found]:
    for each in sorted(entry_points(group=hooks.NAME), key=lambda each: each.name):
        package = each.dist.name if each.dist is not None else each.value
        yield Found(each.name, f"the package {package}", partial(_load_entry_point, each))


def _find_files(folder: Path | None) -> Iterator[Found]:
    for path in sorted(folder.glob("*.py")) if folder is not None else ():
        yield Found(path.stem, str(path), partial(_load_file, path))


def _load_entry_point(entry_point: EntryPoint) -> ModuleType:
    module: ModuleType = entry_point.load()
    return module


def _load_file(path: Path) -> ModuleType:
    name = f"taximeter_extension_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ExtensionError(f"{path} is no Python file")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
