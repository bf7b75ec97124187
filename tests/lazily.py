"""Modules that are loaded when they are used, for what takes long and most workers do without."""

import importlib.util
import sys
from types import ModuleType


def import_lazily(name: str) -> ModuleType:
    """Return a module that loads itself when something of it is looked up for the first time."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"there is no module {name}", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
