"""The addresses below ``/traces/usage/<id>``, and their meaning.

| address below | |
| --- | --- |
| `/request`, `/response` | the exact bytes, to download |
| `…/read`, `…/raw` | a page with that body |
| `/request/front`, `/request/messages/1-50` | settings, system prompt and tools; some messages |
| `…/block/3.0`, `…/json/3.0` | one block in full, and as the JSON that was recorded |
| `…/file/3.0` | the image or document in it |
| each page of these, and `/part` | the same without the page around it, for ``parts.js`` |

``/traces/usage/<entry id>`` redirects to the page of that entry. A place such as ``3.0`` has the index
of a message and of a block in it, counted from 0, then those of nested blocks; ``s`` stands for the
system prompt.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

from dashboard.addresses import CALL_ID, ENTRY_ID, row_address
from store.traces.calls.call_reader import Side

_PLACE = r"(?:s\.)?[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}"
_ADDRESS = re.compile(
    rf"/traces/usage/(?P<id>{CALL_ID})"
    r"(?:/(?P<side>request|response)(?:/(?P<view>"
    rf"read|raw|(?<=request/)front|(?<=request/)messages/(?P<first>[0-9]{{1,6}})-(?P<last>[0-9]{{1,6}})"
    rf"|(?:block|json|file)/(?P<place>{_PLACE}))(?P<part>/part)?)?)?"
)
_ENTRY = re.compile(rf"/traces/usage/({ENTRY_ID})")

type View = Literal["read", "raw", "front", "messages", "block", "json", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The parts of an address: without ``side`` it is the page of the call, without ``view`` the body as a
    file.

    ``entry_id`` has to be resolved to ``usage_id`` first. ``first`` and ``last`` are numbers of
    messages, from 1. ``is_part``: without the page around it."""

    usage_id: int
    side: Side | None = None
    view: View | None = None
    first: int = 1
    last: int = 0
    place: str = ""
    is_part: bool = False
    entry_id: str | None = None


def body_address(usage_id: int, side: Side) -> str:
    """Return the address of the request or response body of a call."""
    return f"{row_address(usage_id)}/{side}"


def find_address(path: str) -> Address | None:
    """Parse the path of an address below ``/traces/usage``; None if Datasette has to serve it."""
    if entry := _ENTRY.fullmatch(path):
        return Address(usage_id=0, entry_id=entry[1])
    found = _ADDRESS.fullmatch(path)
    if found is None:
        return None
    view = found["view"] and found["view"].partition("/")[0]
    if view == "file" and found["part"]:
        return None
    return Address(
        usage_id=int(found["id"]),
        side=cast(Side | None, found["side"]),
        view=cast(View | None, view),
        first=int(found["first"] or 1),
        last=int(found["last"] or 0),
        place=found["place"] or "",
        is_part=found["part"] is not None,
    )
