"""A cache of compiled templates in files, beside the modules that Python has compiled.

Compiling those that a query process begins with takes two fifths of a second of processor time, at every
start. If the files cannot be written, the program works without them, as Python does.
"""

import sys
from contextlib import suppress
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, compiler
from jinja2.bccache import Bucket

FOLDER = Path(cache_from_source(__file__)).parent


class TemplateCache(FileSystemBytecodeCache):
    """The compiled templates of one environment, which the source file ``made_in`` sets up. Jinja compiles
    a template again if its source changed. This class does so too if Jinja, the set-up or a filter
    changed, since expressions without variables are evaluated when a template is compiled."""

    def __init__(self, environment: Environment, made_in: str, folder: Path = FOLDER) -> None:
        """Create the cache for an environment that has all its filters."""
        super().__init__(str(folder), f"{sha256(made_in.encode()).hexdigest()[:8]}-%s.template")
        # Now, since the files of a running program may be replaced.
        self._state = _find_state(environment, made_in)

    def get_source_checksum(self, source: str) -> str:
        """Return the checksum that must be unchanged for the compiled template to be used."""
        return super().get_source_checksum(self._state + source)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template; a damaged file counts as missing."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # whatever pickle makes of bytes that it did not write
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template, if the file can be written."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


def _find_state(environment: Environment, made_in: str) -> str:
    """Return a text that changes if the code that compiles or filters templates changes."""
    functions = [*environment.filters.values(), environment.finalize]
    modules = {sys.modules.get(getattr(each, "__module__", "")) for each in functions}
    files = {getattr(module, "__file__", None) for module in modules}
    paths = sorted({*filter(None, files), compiler.__file__, made_in})
    return repr([(path, *_find_version(path)) for path in paths])


def _find_version(path: str) -> tuple[int, ...]:
    """Return time of change and size of a file, an empty tuple if it is missing, as during an upgrade."""
    with suppress(OSError):
        found = Path(path).stat()
        return found.st_mtime_ns, found.st_size
    return ()
