"""Totals of a product as JSON, in responses of the API and the page."""

from typing import Annotated

from pydantic import Field

from store.json_models import ResponseModel
from store.traces.sums.products import ProductName


class UsageProduct(ResponseModel):
    product: Annotated[
        ProductName,
        Field(description="`batch`, `chat_completions`, `session` (managed) or `dream`."),
    ]
    count: int
    cost_cents: Annotated[float, Field(description="Cost by our prices.")]
    unpriced: Annotated[
        int, Field(description="Number of items without a known cost, not in cost_cents.")
    ]
    list_cost_cents: Annotated[
        float | None, Field(description="List price that upstream states, null if it states none.")
    ]
    is_of_calls: Annotated[
        bool,
        Field(
            description="Whether they are calls, and in the totals. Sessions and dreams are not."
        ),
    ]
