"""Patches of mitmproxy, each for one function and only for the source that it was written for.

This is how they are declared and applied; the list of them is ``addon/mitmproxy_patches.py``.

Patches depend on what the functions around them do, so one that was changed is not replaced: the proxy
does not start, and says why.
"""

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mitmproxy import version

from runtime.installing import command_for

# What the digests were taken of, the first and the last of them: ``pyproject.toml`` asks for these. With
# another one that changed nothing here the proxy starts too.
KNOWN_VERSIONS = ("12.2.3", "12.3.0", "12.3.1")
REQUIREMENT = f"mitmproxy>={KNOWN_VERSIONS[0]},<={KNOWN_VERSIONS[-1]}"


class MitmproxyChangedError(Exception):
    """A function that a patch replaces is not the one that the patch was written for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch[Given]:
    """Names a function of mitmproxy, ``name`` of the class or module ``owner``, and what replaces it.

    ``replace`` returns the replacement, from the original and from what all patches of a list are
    given. It is None where a subclass of ours overrides the function: then there is nothing to
    replace, and still only the function that the subclass was written for will do.

    ``digest`` is ``digest_source`` of the function in all ``KNOWN_VERSIONS`` (None for one that its class
    inherits from the standard library), and ``contract_test`` a test that fails when mitmproxy no longer
    needs the patch, or when the patch no longer works: a file in ``tests/addon/core`` and a function.
    """

    owner: Any
    name: str
    reason: str
    contract_test: str
    digest: str | None
    replace: Callable[[Any, Given], Any] | None
    original: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "original", getattr(self.owner, self.name, None))

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    @property
    def fits(self) -> bool:
        """Return whether the function is still the one that the patch was written for."""
        if self.digest is None:
            return not getattr(self.original, "__module__", "mitmproxy").startswith("mitmproxy")
        return digest_source(self.original) == self.digest


def digest_source(function: Any) -> str | None:
    """Return a digest of a function's source text, whatever its indentation, or None without source."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return None
    return hashlib.sha256(textwrap.dedent(source).encode()).hexdigest()[:16]


def check(patches: Iterable[Patch[Any]]) -> None:
    """Raise MitmproxyChangedError unless each patch fits."""
    changed = [patch for patch in patches if not patch.fits]
    if changed:
        names = ", ".join(map(str, changed))
        raise MitmproxyChangedError(
            f"mitmproxy {version.VERSION} has changed what Taximeter depends on ({names})."
            f" This command installs one that it works with: {command_for(REQUIREMENT)}"
        )


def apply[Given](patches: Iterable[Patch[Given]], given: Given) -> None:
    """Replace the functions; calling it again replaces the replacements, with what is given then."""
    for patch in patches:
        if patch.replace is not None:
            setattr(patch.owner, patch.name, patch.replace(patch.original, given))
