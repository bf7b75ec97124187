"""The operation that searches the texts of calls, and its models."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from manage.api.operation import Context, operation
from store.json_models import Limit, RequestModel, ResponseModel
from store.traces.search.filtering import Filter
from store.traces.search.hit_model import SearchHit
from store.traces.search.query import MAX_CHARS, parse_query
from store.traces.search.reader import Found, search_file
from store.traces.search.walk import Role


class SearchQuery(RequestModel):
    q: Annotated[
        str,
        Field(
            description="Words that must all occur in one text; those in double quotes follow each other.",
            max_length=MAX_CHARS,
        ),
    ]
    role: Annotated[Role | None, Field(description="Who said it.")] = None
    endpoint: Annotated[str | None, Field(description="The slug of a proxy endpoint.")] = None
    model: Annotated[str | None, Field(description="A model; * and ? are wildcards.")] = None
    session: Annotated[str | None, Field(description="The id of a session.")] = None
    limit: Limit = 20


class SearchHits(ResponseModel):
    items: Annotated[Sequence[SearchHit], Field(description="The newest first.")]
    has_more: Annotated[
        bool, Field(alias="hasMore", description="Whether older texts may match too.")
    ]

    @classmethod
    def make(cls, found: Found) -> Self:
        items = [SearchHit.make(hit) for hit in found.hits]
        return cls(items=items, has_more=found.next_place is not None)


@operation(
    "GET",
    "/search",
    name="searchCalls",
    summary="Texts that were said in your organisation's calls, each with its first call.",
    is_slow=True,
    reads_calls=True,
)
def search_calls(context: Context[SearchQuery]) -> SearchHits:
    query = context.request
    only = Filter(slug=query.endpoint, model=query.model, session_id=query.session, role=query.role)
    return SearchHits.make(search_file(context.trace_path, parse_query(query.q), only, query.limit))
