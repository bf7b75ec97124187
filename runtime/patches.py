"""Patches of libraries, each with its reason, its contract test and a digest of what it replaces.

A patch depends on the behaviour of the functions around it. So it is written for one source text of
the replaced function, and any other text, in another version of the library, is detected. What to do
then is decided in the modules that list the patches: ``addon/mitmproxy_patches.py`` and
``dashboard/tables/datasette_patches.py``."""

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch[Given]:
    """A replacement for the attribute ``name`` of ``owner``, a class or module of a library.

    ``replace`` returns the replacement, from the original and a value that all patches of a list
    share. It is None if a subclass or a file of ours replaces the original: then nothing is assigned,
    and the patch only checks the original.

    ``digest`` is ``digest_source`` of the original in all versions that the patch is known to fit, or
    None for an attribute that its class inherits from another library. ``guards`` is the function or
    file to digest, if that is not the attribute itself. ``contract_test`` is a test that fails if the
    library no longer needs the patch, or if the patch no longer works, as a file and a function."""

    owner: Any
    name: str
    reason: str
    contract_test: str
    digest: str | None
    replace: Callable[[Any, Given], Any] | None
    guards: Any = None
    original: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "original", getattr(self.owner, self.name, None))

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    @property
    def fits(self) -> bool:
        """Return whether the original is unchanged since the patch was written."""
        if self.digest is None:
            return self.original is not None and _library(self.original) != _library(self.owner)
        return digest_source(self.guards or self.original) == self.digest


def digest_source(subject: Any) -> str | None:
    """Return a digest of the source text of a function, ignoring indentation, or of a file.

    Return None if there is no source."""
    if isinstance(subject, property):
        subject = subject.fget
    try:
        source = subject.read_text() if isinstance(subject, Path) else inspect.getsource(subject)
    except (OSError, TypeError):
        return None
    return hashlib.sha256(textwrap.dedent(source).encode()).hexdigest()[:16]


def find_changed(patches: Iterable[Patch[Any]]) -> list[str]:
    """Return the names of originals whose source has changed since their patch was written."""
    return [str(patch) for patch in patches if not patch.fits]


def apply[Given](patches: Iterable[Patch[Given]], given: Given) -> None:
    """Replace the originals. A second call replaces them again, with the new ``given``."""
    for patch in patches:
        if patch.replace is not None:
            setattr(patch.owner, patch.name, patch.replace(patch.original, given))


def _library(part: Any) -> str:
    """Return the name of the top-level package of a class, a function or a module."""
    name: str = getattr(part, "__module__", None) or part.__name__
    return name.partition(".")[0]
