"""Patches of libraries, each with its reason, its contract test and a digest of what it replaces.

A patch depends on what the functions around it do. So it is written for one text of the function that it
replaces, and another text, which another version of the library may bring, is noticed. What follows from
that is decided where the patches of a library are listed: ``addon/mitmproxy_patches.py`` and
``dashboard/tables/datasette_patches.py``.
"""

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch[Given]:
    """Names an attribute of a library, ``name`` of the class or module ``owner``, and what replaces it.

    ``replace`` returns the replacement, from the original and from what all patches of a list are
    given. It is None where a subclass or a file of ours takes the place of the original: then there is
    nothing to replace, and still only the original that it was written for will do.

    ``digest`` is ``digest_source`` of the original in all versions that the patch is known to fit, or None
    for one that its class inherits from another library. ``guards`` names the function or the file to
    digest where that is not the attribute itself. ``contract_test`` is a test that fails when the library
    no longer needs the patch, or when the patch no longer works: a file and a function.
    """

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
        """Return whether the original is still the one that the patch was written for."""
        if self.digest is None:
            return self.original is not None and _library(self.original) != _library(self.owner)
        return digest_source(self.guards or self.original) == self.digest


def digest_source(subject: Any) -> str | None:
    """Return a digest of the source text of a function, whatever its indentation, or of a file.

    Returns None where there is no source."""
    if isinstance(subject, property):
        subject = subject.fget
    try:
        source = subject.read_text() if isinstance(subject, Path) else inspect.getsource(subject)
    except (OSError, TypeError):
        return None
    return hashlib.sha256(textwrap.dedent(source).encode()).hexdigest()[:16]


def find_changed(patches: Iterable[Patch[Any]]) -> list[str]:
    """Return the names of the functions whose source has changed since their patch was written."""
    return [str(patch) for patch in patches if not patch.fits]


def apply[Given](patches: Iterable[Patch[Given]], given: Given) -> None:
    """Replace the originals; calling it again replaces the replacements, with what is given then."""
    for patch in patches:
        if patch.replace is not None:
            setattr(patch.owner, patch.name, patch.replace(patch.original, given))


def _library(part: Any) -> str:
    """Return the name of the top package that a class, a function or a module is from."""
    name: str = getattr(part, "__module__", None) or part.__name__
    return name.partition(".")[0]
