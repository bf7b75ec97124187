"""An extension of a test's own beside those of the program."""

from collections.abc import Iterator
from contextlib import contextmanager

from runtime import extensions


@contextmanager
def registered(plugin: object) -> Iterator[None]:
    """Add the hooks of a plugin to those of the extensions."""
    manager = extensions.load()
    manager.register(plugin, "of a test")
    try:
        yield
    finally:
        manager.unregister(plugin)
