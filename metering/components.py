"""The billed components of a call: tokens at several rates, and web searches.

``usage_cost.component`` and price files use these names. A component is not always a class of tokens:
cache writes have two rates.
"""

from collections.abc import Callable
from dataclasses import dataclass

from metering.token_counts import PROMPT_CLASSES
from metering.usage import Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A billed component. ``title`` is its name on pages.

    ``base_price`` is the name of the rate in a ``genai_prices.ModelPrice``, None if only price files have
    the rate."""

    name: str
    title: str
    base_price: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenComponent(Component):
    """A component that is counted in tokens.

    ``counted_in`` is the field of ``TokenCounts`` that includes its tokens. ``quantity`` returns the
    number of tokens of a pass that are billed at its rate, None if unknown. A price file must have the
    rate if ``is_required``; otherwise the rate may be missing, and is then unknown."""

    counted_in: str
    quantity: Callable[[Pass], int | None]
    is_required: bool = False


def _count_5m_writes(billed: Pass) -> int:
    return (billed.tokens.cache_creation_input_tokens or 0) - billed.cache_write_1h_tokens


INPUT = TokenComponent(
    name="input",
    title="Uncached input",
    base_price="input_mtok",
    counted_in="input_tokens",
    quantity=lambda billed: billed.tokens.input_tokens,
    is_required=True,
)
OUTPUT = TokenComponent(
    name="output",
    title="Output",
    base_price="output_mtok",
    counted_in="output_tokens",
    quantity=lambda billed: billed.tokens.output_tokens,
    is_required=True,
)
CACHE_WRITE_1H = "cache_write_1h"
# In the order of line items. Those that price files have always had are required.
TOKEN_COMPONENTS: tuple[TokenComponent, ...] = (
    INPUT,
    TokenComponent(
        name="cache_read",
        title="Cache reads",
        base_price="cache_read_mtok",
        counted_in="cache_read_input_tokens",
        quantity=lambda billed: billed.tokens.cache_read_input_tokens,
        is_required=True,
    ),
    TokenComponent(
        name="cache_write_5m",
        title="Cache writes, 5 minutes",
        base_price="cache_write_mtok",
        counted_in="cache_creation_input_tokens",
        quantity=_count_5m_writes,
        is_required=True,
    ),
    TokenComponent(
        name=CACHE_WRITE_1H,
        title="Cache writes, 1 hour",
        base_price="cache_write_1h_mtok",
        counted_in="cache_creation_input_tokens",
        quantity=lambda billed: billed.cache_write_1h_tokens,
        is_required=True,
    ),
    OUTPUT,
)
# Rates are in US dollars for as many.
TOKEN_UNIT, SEARCH_UNIT = 1_000_000, 1_000
WEB_SEARCH = Component(name="web_search", title="Web searches", base_price="web_searches_kcount")
_PROMPT_CLASSES = {each.name for each in PROMPT_CLASSES}
PROMPT_COMPONENTS = tuple(
    each.name for each in TOKEN_COMPONENTS if each.counted_in in _PROMPT_CLASSES
)
TOKEN_CLASSES = {each.name: each.counted_in for each in TOKEN_COMPONENTS}
TITLES = {each.name: each.title for each in (*TOKEN_COMPONENTS, WEB_SEARCH)}
