"""The code of data classes in files, beside the modules that Python has compiled.

``dataclasses`` writes a text of methods for each class and compiles it whenever the class is made. That
takes a fifth of the processor time of a start: there are hundreds of classes, and Python keeps compiled
modules alone. Here the text is compiled once. Like Python, this goes on without files where they cannot be
written.
"""

import dataclasses
import marshal
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any

type _Codes = dict[str, bytes]

_BESIDE = Path(cache_from_source(__file__))


def find_path(program: str) -> Path:
    """Return the file for a program, or for the module of a command."""
    return _BESIDE.with_suffix(f".{program}.code")


@contextmanager
def kept_in(path: Path) -> Iterator[None]:
    """Take the code of data classes that are made meanwhile from a file, which gets what it lacks."""
    known = _read(path)
    used: _Codes = {}

    def run(text: str, *namespaces: dict[str, Any]) -> None:
        marshalled = known.get(text)
        if marshalled is None:
            code = compile(text, "<string>", "exec", dont_inherit=True)
            used[text] = marshal.dumps(code)
        else:
            code = marshal.loads(marshalled)  # noqa: S302 - as with modules: whoever writes there, runs here
            used[text] = marshalled
        exec(code, *namespaces)  # noqa: S102 - as dataclasses does with the text

    vars(dataclasses)["exec"] = run  # in their module this name goes before the built-in one
    try:
        yield
    finally:
        vars(dataclasses).pop("exec", None)
        if not sys.dont_write_bytecode and not used.keys() <= known.keys():
            _write(path, used)


def _read(path: Path) -> _Codes:
    """Return the codes in a file, none where it is missing, damaged or of another Python."""
    with suppress(OSError):
        content = path.read_bytes()
        head, body = content[: len(MAGIC_NUMBER) + 4], content[len(MAGIC_NUMBER) + 4 :]
        if head == _make_head(body):
            codes: _Codes = marshal.loads(body)  # noqa: S302 - as above
            return codes
    return {}


def _write(path: Path, codes: _Codes) -> None:
    """Write a file as a whole, if that is possible. Other processes may do so at the same time."""
    body = marshal.dumps(codes)
    new = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        try:
            new.write_bytes(_make_head(body) + body)
            new.replace(path)
        except OSError:
            new.unlink(missing_ok=True)


def _make_head(body: bytes) -> bytes:
    return MAGIC_NUMBER + zlib.crc32(body).to_bytes(4)
