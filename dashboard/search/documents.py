"""``/search.json``: what it responds."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from store.json_models import Instant, ListResponse
from store.traces.search.hit_model import SearchHit


class SearchResults(ListResponse):
    items: Sequence[SearchHit]
    location: Annotated[
        str | None, Field(description="The page of the call or session that the text names.")
    ]
    indexed: Annotated[bool, Field(description="Whether search is turned on.")]
    searched_back_to: Instant | None
    calls_not_searched: int
