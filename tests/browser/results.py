"""The results of a search, which are on several pages where it takes more than a part of a second."""

import json
from typing import Any

from tests.browser.visitor import Visitor

_OLDER = "Older results"
_FETCH = "fetch(arguments[0]).then((answer) => answer.text()).then(done)"


def see_result(visitor: Visitor, text: str) -> None:
    """Look for a text on the page of a search that is open, and on those that follow it."""
    while text not in visitor.text and _OLDER in visitor.names("link"):
        visitor.follow(_OLDER, "link")
    visitor.see(text)


def read_results(visitor: Visitor, address: str) -> list[dict[str, Any]]:
    """Return the items of all pages of the JSON of a search."""
    page = json.loads(visitor.run_async(_FETCH, address))
    items: list[dict[str, Any]] = page["items"]
    while page["hasMore"]:
        page = json.loads(visitor.run_async(_FETCH, f"{address}&cursor={page['nextCursor']}"))
        items += page["items"]
    return items
