"""Choosing some cases of a programme by their names."""

import sys
from collections.abc import Sequence
from typing import Protocol

ONLY = "the cases whose names have one of these texts, separated by commas"


class Named(Protocol):
    """A case or something else that has a name."""

    @property
    def name(self) -> str: ...


def find_named[T: Named](cases: Sequence[T], texts: str) -> list[T]:
    """Return the cases that are meant by ``ONLY``. Ends the program where there is none."""
    found = [case for case in cases if any(text in case.name for text in texts.split(","))]
    if not found:
        sys.exit(f"no case has {texts!r} in its name: {', '.join(case.name for case in cases)}")
    return found
