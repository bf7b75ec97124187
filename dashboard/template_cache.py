"""Compiled templates in files, beside the modules that Python has compiled.

To compile those that a query process begins with takes two fifths of a second of a processor, at every
start. Like Python, this goes on without the files where they cannot be written.
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
    """The compiled templates of one environment, which the source code in ``made_in`` makes.

    Jinja compiles anew what has other source. This does so too when Jinja, the environment or a filter has
    changed: expressions without variables are evaluated when a template is compiled."""

    def __init__(self, environment: Environment, made_in: str, folder: Path = FOLDER) -> None:
        """Take an environment that has all its filters."""
        super().__init__(str(folder), f"{sha256(made_in.encode()).hexdigest()[:8]}-%s.template")
        # Now, since the files of a running program may be replaced.
        self._state = _find_state(environment, made_in)

    def get_source_checksum(self, source: str) -> str:
        """Return what has to be the same for a template not to be compiled anew."""
        return super().get_source_checksum(self._state + source)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read the code of a template. What is damaged is like what is absent."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # whatever pickle makes of bytes that it did not write
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the code of a template, if that is possible."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


def _find_state(environment: Environment, made_in: str) -> str:
    """Return what differs after a change of the code by which templates are compiled."""
    functions = [*environment.filters.values(), environment.finalize]
    modules = {sys.modules.get(getattr(each, "__module__", "")) for each in functions}
    files = {getattr(module, "__file__", None) for module in modules}
    paths = sorted({*filter(None, files), compiler.__file__, made_in})
    return repr([(path, *_find_version(path)) for path in paths])


def _find_version(path: str) -> tuple[int, ...]:
    """Return time and size of a file, nothing if it is gone, as in an upgrade."""
    with suppress(OSError):
        found = Path(path).stat()
        return found.st_mtime_ns, found.st_size
    return ()
