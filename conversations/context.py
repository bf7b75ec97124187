"""The context of one call: the contents of its prompt in bytes, tokens and cents."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from conversations.cache_rules import ModelRules
from conversations.prompt_bill import PromptBill
from conversations.token_shares import PARTS, Part, Share, TokenShares, share_tokens
from conversations.units import read_prompt
from conversations.xray import Category, Span, list_spans
from wire.json_reading import parse_object
from wire.request import Request

ADDED: Category = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The bytes and tokens of a category, or of one name within it.

    ``cents`` is their cost in this call, None if a price is unknown. ``count`` is the number of spans."""

    category: Category
    name: str | None
    count: int
    size: int
    parts: Mapping[Part, int]
    cents: Decimal | None

    @property
    def tokens(self) -> int:
        return sum(self.parts.values())

    @property
    def cached(self) -> int:
        """Return the number of tokens that were read from the cache."""
        return self.parts["read"]

    @property
    def written(self) -> int:
        return self.parts["written_1h"] + self.parts["written_5m"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The contents of the prompt of a call. ``found`` is None if no tokens were counted; the rows then
    have only bytes."""

    shares: Sequence[Share]
    found: TokenShares | None
    bill: PromptBill

    @property
    def added_before(self) -> int:
        """Return the number of tokens that upstream added before the first span: its prompt for tools."""
        return 0 if self.found is None else self.found.tool_prompt

    def by_category(self) -> list[Row]:
        """Return a row for each category, and one for tokens that upstream added, most tokens first."""
        return self._sum(lambda span: (span.category, None), self.shares, with_added=True)

    def by_name(self) -> list[Row]:
        """Return a row for each name within a category: tools, results by tool, memory files."""
        named = [share for share in self.shares if share.span.name is not None]
        return self._sum(lambda span: (span.category, span.name), named)

    def by_server(self) -> list[Row]:
        """Return a row for each MCP server with its tools, and one for the other tools."""
        tools = [s for s in self.shares if s.span.category in ("tool", "deferred_tool")]
        return self._sum(lambda span: (span.category, span.server), tools)

    def largest(self, count: int) -> list[tuple[Share, Decimal | None]]:
        """Return the ``count`` largest spans that the model reads, with their cost in cents in this call."""
        shares = [share for share in self.shares if share.span.category != "envelope"]
        shares.sort(key=lambda share: (-share.tokens, -share.span.size, share.span.start))
        return [(share, self.bill.price(share.part, share.tokens)) for share in shares[:count]]

    def _sum(
        self,
        key: Callable[[Span], tuple[Category, str | None]],
        shares: Iterable[Share],
        *,
        with_added: bool = False,
    ) -> list[Row]:
        sizes: defaultdict[tuple[Category, str | None], int] = defaultdict(int)
        counts: defaultdict[tuple[Category, str | None], int] = defaultdict(int)
        tokens: dict[tuple[Category, str | None], dict[Part, int]] = {}
        for share in shares:
            here = key(share.span)
            sizes[here] += share.span.size
            counts[here] += 1
            tokens.setdefault(here, dict.fromkeys(PARTS, 0))[share.part] += share.tokens
        if with_added and self.found is not None and self.found.added:
            of_added = tokens.setdefault((ADDED, None), dict.fromkeys(PARTS, 0))
            for part, count in self.found.added.items():
                of_added[part] += count
        rows = [
            Row(
                category=here[0],
                name=here[1],
                count=counts[here],
                size=sizes[here],
                parts=parts,
                cents=self._price(parts),
            )
            for here, parts in tokens.items()
        ]
        return sorted(rows, key=lambda row: (-row.tokens, -row.size, row.category, row.name or ""))

    def _price(self, parts: Mapping[Part, int]) -> Decimal | None:
        prices = [self.bill.price(part, count) for part, count in parts.items()]
        known = [price for price in prices if price is not None]
        return sum(known, Decimal(0)) if len(known) == len(prices) else None


def read_context(
    body: bytes, bill: PromptBill, model: str | None, cache_rules: ModelRules
) -> Context:
    """Return the contents of the prompt in a request body. Never raises."""
    spans = list_spans(body)
    if not bill.tokens.total:
        return Context(shares=[Share(span, 0, "uncached") for span in spans], found=None, bill=bill)
    prompt = read_prompt(Request(parse_object(body) or {})).without_attribution()
    found = share_tokens(body, spans, prompt, bill.tokens, model, cache_rules)
    return Context(shares=found.shares, found=found, bill=bill)
