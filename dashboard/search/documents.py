"""``/search.json``: the models of its response."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from store.json_models import Instant, ListResponse, ResponseModel
from store.traces.search.hit_model import SearchHit
from store.traces.search.notes import FoundNote


class SearchNote(ResponseModel):
    session_id: Annotated[str | None, Field(description="null if the note is about a call.")]
    session_title: str | None
    id: Annotated[
        int | None, Field(description="The id of the call; null if it is about a session.")
    ]
    text: str
    by: Annotated[str | None, Field(description="The author; null for the operator.")]
    at: Instant

    @classmethod
    def make(cls, found: FoundNote) -> Self:
        return cls.of(
            found.note,
            session_id=found.session_id,
            session_title=found.session_title,
            id=found.usage_id,
        )


class SearchResults(ListResponse):
    items: Sequence[SearchHit]
    location: Annotated[
        str | None, Field(description="The page of the call or session, if the text is an id.")
    ]
    indexed: Annotated[bool, Field(description="Whether search is turned on.")]
    searched_back_to: Instant | None
    calls_not_searched: int
    notes: Annotated[
        Sequence[SearchNote],
        Field(description="Notes with these words, on the first page without filters."),
    ] = ()
    labels: Annotated[
        Sequence[str],
        Field(description="Labels with these words, on the first page without filters."),
    ] = ()
