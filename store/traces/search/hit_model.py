"""A hit of a search as JSON, in responses of the API and the page."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from store.json_models import Instant, ResponseModel
from store.traces.search.reader import Hit
from store.traces.search.walk import Role


class SearchHit(ResponseModel):
    id: Annotated[int, Field(description="The first call that has the text.")]
    entry_id: str
    created_at: Instant
    slug: str
    model: str | None
    session_id: str | None
    session_title: str | None
    role: Role
    snippet: str
    marks: Annotated[
        Sequence[tuple[int, int]],
        Field(description="Start and end of each searched word in the snippet."),
    ] = ()
    other_calls: Annotated[int, Field(description="Number of later calls with the text.")]
    other_calls_capped: Annotated[bool, Field(description="Whether other_calls may be larger.")]

    @classmethod
    def make(cls, hit: Hit) -> Self:
        return cls.of(
            hit.call,
            id=hit.call.usage_id,
            session_title=hit.session_title,
            role=hit.snippet.role,
            snippet=hit.snippet.text,
            marks=hit.snippet.marks,
            other_calls=hit.other_calls,
            other_calls_capped=hit.is_capped,
        )
