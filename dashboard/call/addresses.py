"""The addresses below ``/traces/usage/<id>``, and what they name.

| address below | |
| --- | --- |
| `/request`, `/response` | the exact bytes, to download |
| `…/read`, `…/raw` | a page with that body |
| `…/read/part`, `…/raw/part` | the same without the page around it, for ``trace.js`` |

``/traces/usage/<entry id>`` redirects to the page of that entry.
"""

import re
from dataclasses import dataclass
from typing import cast

from dashboard.call.bodies import View
from store.traces.call_reader import Side

_ADDRESS = re.compile(
    r"/traces/usage/(?P<id>[0-9]{1,18})"
    r"(?:/(?P<side>request|response)(?:/(?P<view>read|raw)(?P<part>/part)?)?)?"
)
_ENTRY = re.compile(r"/traces/usage/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The parts of an address: the page of the call without ``side``, the file without ``view``.
    ``entry_id`` has to be resolved first."""

    usage_id: int
    side: Side | None = None
    view: View | None = None
    is_part: bool = False
    entry_id: str | None = None


def find_address(path: str) -> Address | None:
    """Return what an address names, or None for one that is Datasette's."""
    if entry := _ENTRY.fullmatch(path):
        return Address(usage_id=0, entry_id=entry[1])
    found = _ADDRESS.fullmatch(path)
    if found is None:
        return None
    side, view = (found["side"], found["view"])
    return Address(
        usage_id=int(found["id"]),
        side=cast(Side | None, side),
        view=cast(View | None, view),
        is_part=found["part"] is not None,
    )
