"""The documented shapes of upstream's usage and cost reports.

From the vendor's reference of the Admin API ("Get Messages Usage Report", "Get Cost Report") and its
page "Usage and Cost API", in copies stored between August and November 2026, looked up 2026-11-21:

- ``GET /v1/organizations/usage_report/messages``: buckets of a day (``bucket_width=1d``, at most 31 a
  page by ``limit``) from ``starting_at`` up to ``ending_at``, RFC 3339, snapped to UTC days;
  ``group_by[]`` takes ``model``, ``workspace_id``, ``api_key_id``, ``service_tier`` and others. The
  fields of dimensions that are not grouped by are null.
- ``GET /v1/organizations/cost_report``: the same buckets; ``group_by[]`` takes ``workspace_id`` and
  ``description``, which fills in model, tier and types too. ``amount`` is a decimal string in cents.
  ``cost_type`` is ``tokens``, ``web_search``, ``code_execution`` or ``session_usage``; others than
  tokens have no model. The priority tier is not in it, and neither are keys.
- Pages are followed by ``has_more`` and ``next_page``, sent back as ``page``.
- The default workspace is null, and so is the key of usage in the Console.
- Figures are there about 5 minutes after a call, at times later.

Since 2026-10-29 the vendor calls both "legacy, still supported", beside a beta of new endpoints, which
``analytics.py`` reads. These are the default because they are not beta.

Fields that are not read may change or be missing; what is read is checked.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
)

from extensions.reconcile.comparison import TOKENS, WEB_SEARCH, Figures, Reported
from metering.token_counts import TOKEN_CLASSES, TokenCounts

USAGE_PATH = "/v1/organizations/usage_report/messages"
USAGE_GROUPS = ("model", "workspace_id", "api_key_id", "service_tier")
COST_PATH = "/v1/organizations/cost_report"
COST_GROUPS = ("workspace_id", "description")

# Far more than anybody uses in a day, and little enough that sums fit a file.
type Count = Annotated[int, Field(ge=0, le=10**15, strict=True)]
type Name = Annotated[str, Field(max_length=300)] | None
# Far more than any bill, and few enough digits that sums are exact.
type Cents = Annotated[Decimal, Field(max_digits=24, allow_inf_nan=False)]
type Instant = Annotated[AwareDatetime, AfterValidator(_to_utc)]


def _to_utc(instant: datetime) -> datetime:
    """Return an instant in UTC. Raises ValueError if its date is out of range in UTC."""
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("there is no such date in UTC") from error


class Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _ServerToolUse(Shape):
    web_search_requests: Count = 0


def _list_token_fields() -> dict[str, Any]:
    """Return a field definition for each class of tokens in reports, for ``pydantic.create_model``.

    In an object of the report, such as ``cache_creation``, each count may be missing."""
    found: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for path in (path for each in TOKEN_CLASSES for path in each.in_reports):
        name, _, leaf = path.partition(".")
        if leaf:
            nested.setdefault(name, {})[leaf] = (Count, 0)
        else:
            found[name] = (Count, ...)
    for name, leaves in nested.items():
        found[name] = (create_model(name, __base__=Shape, **leaves), ...)
    return found


class UsageCounts(create_model("_Tokens", __base__=Shape, **_list_token_fields())):  # type: ignore[misc]  # made from the classes of tokens
    server_tool_use: _ServerToolUse = _ServerToolUse()

    def to_figures(self) -> Iterator[tuple[str, Figures]]:
        """Yield (kind, figures): the tokens, and the web searches apart, as they are billed."""
        tokens = TokenCounts(
            **{
                each.name: sum(attrgetter(path)(self) for path in each.in_reports)
                for each in TOKEN_CLASSES
            }
        )
        yield TOKENS, Figures(tokens=tokens)
        if searches := self.server_tool_use.web_search_requests:
            yield WEB_SEARCH, Figures(web_search_requests=searches)


class Group(Shape):
    """The dimensions of an item. A dimension that the report was not grouped by is None."""

    model: Name = None
    workspace_id: Name = None
    api_key_id: Name = None
    service_tier: Name = None
    product: Name = None
    cost_type: Name = None

    def report(self, day: date, kind: str, figures: Figures, requests: int = 0) -> Reported:
        """Return the figures as an item to compare. The model is set for tokens only."""
        return Reported(
            day=day,
            kind=kind,
            model=self.model if kind == TOKENS else None,
            figures=figures,
            workspace_id=self.workspace_id,
            api_key_id=self.api_key_id,
            service_tier=self.service_tier,
            product=self.product,
            requests=requests,
        )


class UsageItem(UsageCounts, Group):
    def to_reported(self, day: date) -> Iterator[Reported]:
        """Yield the tokens of all classes as one item to compare, and web searches as another."""
        for kind, figures in self.to_figures():
            yield self.report(day, kind, figures)


class CostItem(Group):
    amount: Cents
    currency: Literal["USD"]
    description: Name = None

    def to_reported(self, day: date) -> Iterator[Reported]:
        """Yield the cost as an item to compare; its kind is its type, or else its description."""
        kind = self.cost_type or (TOKENS if self.model else self.description or "other")
        yield self.report(day, kind, Figures(cost_cents=self.amount))


class Bucket[Item: (UsageItem, CostItem)](Shape):
    starting_at: Instant
    results: tuple[Item, ...]

    @property
    def day(self) -> date:
        return self.starting_at.date()


class AnyPage(Shape):
    """The fields of a page other than its items: whether another page follows, and its token."""

    has_more: bool
    next_page: Annotated[str, Field(max_length=10_000)] | None = None


class Page[Item: (UsageItem, CostItem)](AnyPage):
    data: tuple[Bucket[Item], ...]
