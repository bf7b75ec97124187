"""Notes on what is missing of the bodies of an entry, and why: the column ``body_notes``.

One short text for both sides, from a fixed vocabulary, so that calls can be filtered and counted by it:

    <side> not kept: <reason>       nothing is stored
    <side> incomplete: <reason>     stored up to where it could not be written any more
    <side> as received: <reason>    stored as it came, still in its content-encoding

None says that nothing is missing.
"""

from dataclasses import replace
from typing import Literal

from metering.entry import UsageLogEntry

SEPARATOR = "; "

type Side = Literal["request", "response"]
type Lack = Literal["not kept", "incomplete", "as received"]
type Reason = Literal[
    "metadata only",
    "disk reserve",
    "disk full",
    "too large to hold",
    "too large to decode",
    "damaged encoding",
    "unknown encoding",
    "too many encodings",
    "spool not writable",
    "removed by retention",
]


def format_note(side: Side, lack: Lack, reason: Reason) -> str:
    """Return the note about the body of one side: ``request not kept: disk reserve``."""
    return f"{side} {lack}: {reason}"


def join_notes(*notes: str | None) -> str | None:
    """Return the text of the column, or None without notes."""
    return SEPARATOR.join(note for note in notes if note) or None


def note_removal(notes: str | None, side: Side) -> str | None:
    """Return the notes of an entry after retention has removed the body of ``side``."""
    others = (each for each in (notes or "").split(SEPARATOR) if not each.startswith(f"{side} "))
    return join_notes(*others, format_note(side, "not kept", "removed by retention"))


def drop_body(entry: UsageLogEntry, side: Side, reason: Reason) -> UsageLogEntry:
    """Return the entry without one of its bodies, and with a note about it."""
    others = (
        each for each in (entry.body_notes or "").split(SEPARATOR) if each[: len(side)] != side
    )
    notes = join_notes(*others, format_note(side, "not kept", reason))
    if side == "request":
        return replace(entry, request_body=None, body_notes=notes)
    return replace(entry, response_body=None, body_notes=notes)
