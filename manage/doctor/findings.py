"""The result of one check of `taximeter doctor`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

type Verdict = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. ``advice`` says what to do, if anything."""

    check: str
    verdict: Verdict
    message: str
    advice: str | None = None


def advise_owner(folder: Path) -> str:
    """Return the advice for a folder that cannot be read or written."""
    return f"run as the user the service runs as, or give {folder} to this one with chown"
