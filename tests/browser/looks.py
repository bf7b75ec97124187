"""The windows and colours in which a page is looked at, and what must be right in each."""

import json
from collections.abc import Callable
from typing import Literal

from tests.browser.visitor import Visitor

type Look = tuple[int, Literal["light", "dark"]]

LOOKS: tuple[Look, ...] = ((1280, "light"), (820, "light"), (360, "dark"))
ALL_LOOKS: tuple[Look, ...] = (*LOOKS, (1280, "dark"), (360, "light"))
# A part that could not be loaded, on a busy machine, is folded, and unfolded again by the next call.
_UNFOLD = """
const hasFailed = (d) => d.open && d.matches("[data-part]:not([data-requested]):has(> .later > p + p)");
document.querySelectorAll("details").forEach((d) => { d.open = !hasFailed(d); });
return !document.querySelector(".later[aria-busy], [data-part]:not([data-requested])");
"""
_UNFOLD_ONE = """
const part = document.querySelector(arguments[0]);
const hasFailed = part.open && part.matches(":not([data-requested]):has(> .later > p + p)");
part.open = !hasFailed;
return part.dataset.requested && !part.querySelector(":scope > .later[aria-busy]");
"""
_LACKING = """
return [...document.querySelectorAll("[data-part]:not([data-requested]), [data-part]:has(> .later[aria-busy])")]
  .map((part) => `${part.dataset.part}: ${part.querySelector(":scope > .later")?.textContent.trim()}`);
"""


def unfold(visitor: Visitor) -> None:
    """Open all that can be opened on a page, and wait until its parts are loaded."""
    visitor.wait_for(
        lambda: visitor.run(_UNFOLD), lambda: f"parts of the page: {visitor.run(_LACKING)}"
    )


def unfold_part(visitor: Visitor, selector: str) -> None:
    """Open one part of a page that is loaded when it is opened, and wait until it is."""
    visitor.wait_for(lambda: visitor.run(_UNFOLD_ONE, selector), selector)


def assert_fit(
    visitor: Visitor,
    pages: dict[str, str],
    looks: tuple[Look, ...] = LOOKS,
    find_more: Callable[[str, int], list[str]] = lambda _name, _width: [],
) -> None:
    """Check that nothing on these pages stands in anybody's way, in each look.

    ``find_more`` finds faults of a page at a width that only some pages may not have. Each page is opened
    in the look in which the one before was left, since to change looks takes as long as half a page."""
    found = {}
    now: Look | None = None
    for name, address in pages.items():
        visitor.open(address)
        unfold(visitor)
        for look in sorted(looks, key=lambda each: each != now):
            width, scheme = look
            if look != now:
                visitor.resize(width, 844)
                visitor.prefer(scheme)
                now = look
            if faults := [*visitor.faults(), *find_more(name, width)]:
                found[f"{name}, {width}, {scheme}"] = faults
    assert found == {}, json.dumps(found, indent=1)
