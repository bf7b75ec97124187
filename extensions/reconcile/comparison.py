"""Comparison of upstream's own usage and cost reports with recorded usage.

A row is one UTC day and one model, or one other kind of cost (for example web search, which upstream
bills apart from models). Every figure of either side is in exactly one row, so the differences of the
rows add up to the difference of the totals. A difference is the reported amount less the recorded one.

Keys are listed on upstream's side alone: its reports name keys by an id (``apikey_…``) that cannot be
derived from a credential, and a credential is never stored here."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import add, sub

from metering.token_counts import NAMES, ZERO, TokenCounts

TOKENS, WEB_SEARCH = "tokens", "web_search"
# Reports are in fractions of a cent, and a stored cost has 15 digits: smaller differences are none.
NEGLIGIBLE_CENTS = Decimal("0.01")
_BATCH, _STANDARD, _PRIORITY = "batch", "standard", "priority"
_BATCHES = "message_batches_api"
# What calls that pass can be reported as. "other" is usage that upstream cannot attribute.
_PROXIED = (None, "messages_api", "claude_code", _BATCHES, "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Tokens by class, web searches and cost, of one side or as a difference.

    ``discount_cents`` is the list price of reported usage less its cost. It is 0 if upstream names no
    list price, and for recorded usage."""

    tokens: TokenCounts = ZERO
    web_search_requests: int = 0
    cost_cents: Decimal = Decimal(0)
    discount_cents: Decimal = Decimal(0)

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(
            tokens=self.tokens + other.tokens,
            web_search_requests=self.web_search_requests + other.web_search_requests,
            cost_cents=self.cost_cents + other.cost_cents,
            discount_cents=self.discount_cents + other.discount_cents,
        )

    def __sub__(self, other: "Figures") -> "Figures":
        return self + -other

    def __neg__(self) -> "Figures":
        return Figures(
            tokens=TokenCounts(**{name: -(getattr(self.tokens, name) or 0) for name in NAMES}),
            web_search_requests=-self.web_search_requests,
            cost_cents=-self.cost_cents,
            discount_cents=-self.discount_cents,
        )

    @property
    def list_cents(self) -> Decimal:
        return self.cost_cents + self.discount_cents

    @property
    def all_tokens(self) -> int:
        return sum(getattr(self.tokens, name) or 0 for name in NAMES)

    @property
    def has_counts(self) -> bool:
        """Return whether any count is not zero."""
        return self.web_search_requests != 0 or any(getattr(self.tokens, name) for name in NAMES)

    @property
    def is_negligible(self) -> bool:
        return not self.has_counts and abs(self.cost_cents) < NEGLIGIBLE_CENTS


NOTHING = Figures()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """An item of upstream's reports. ``kind`` is ``tokens``, ``web_search`` or another type of cost.

    An item of the usage report has counts and no cost, an item of the cost report a cost and no
    counts. ``workspace_id`` is None for the default workspace. ``api_key_id`` is None for usage
    without a key (the Console, or a sign-in) and in the cost report, which names no keys. Only the
    analytics reports have ``product`` and the number of ``requests``."""

    day: date
    kind: str
    model: str | None
    figures: Figures
    workspace_id: str | None = None
    api_key_id: str | None = None
    service_tier: str | None = None
    product: str | None = None
    requests: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCounts:
    """The numbers of recorded calls in a row whose cost is uncertain, by reason.

    ``unpriced`` have usage and no known price, ``estimated`` an estimated output, ``cut`` ended before
    their final usage was received, ``no_response`` were sent and have no usage, ``not_billed`` have
    passes that upstream does not bill."""

    calls: int = 0
    unpriced: int = 0
    estimated: int = 0
    cut: int = 0
    no_response: int = 0
    not_billed: int = 0

    def __add__(self, other: "CallCounts") -> "CallCounts":
        return CallCounts(
            calls=self.calls + other.calls,
            unpriced=self.unpriced + other.unpriced,
            estimated=self.estimated + other.estimated,
            cut=self.cut + other.cut,
            no_response=self.no_response + other.no_response,
            not_billed=self.not_billed + other.not_billed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A sum over recorded calls that are billed by the API.

    ``workspace_id`` is None if it is unknown, which does not mean the default workspace. ``is_batch``:
    the calls are results of message batches."""

    day: date
    kind: str
    model: str | None
    figures: Figures
    counts: CallCounts = field(default_factory=CallCounts)
    workspace_id: str | None = None
    is_batch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A likely cause of a difference, or a note. ``name`` is a key of the texts in ``causes``.

    The numbers are the amounts that it explains, None if unknown; ``product`` is a product of upstream
    or None."""

    name: str
    product: str | None = None
    calls: int | None = None
    tokens: int | None = None
    days: int | None = None
    cost_cents: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUsage:
    """The recorded usage to compare, and notes about what is left out or less exact."""

    items: tuple[Recorded, ...] = ()
    notes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    day: date
    kind: str
    model: str | None
    reported: Figures
    recorded: Figures
    difference: Figures
    causes: tuple[Cause, ...] = ()

    @property
    def is_empty(self) -> bool:
        return all(
            not side.has_counts and side.cost_cents == 0 for side in (self.reported, self.recorded)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The usage of a workspace. ``workspace_id`` is None for upstream's default workspace.

    ``recorded`` is None if no recorded call names this workspace."""

    workspace_id: str | None
    reported: Figures
    recorded: Figures | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The usage of an upstream key, without cost, which upstream does not report by key.

    ``api_key_id`` is None for usage without a key, as in the Console or after a sign-in."""

    api_key_id: str | None
    workspace_id: str | None
    reported: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The usage of a product of upstream. ``product`` is None for usage that upstream cannot attribute."""

    product: str | None
    requests: int
    reported: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of a comparison: rows by newest day, then by largest difference.

    Rows without tokens and cost on either side are left out. ``products`` is empty for reports that
    name none. ``notes`` are about the whole period."""

    reported: Figures
    recorded: Figures
    difference: Figures
    rows: tuple[Row, ...]
    workspaces: tuple[Workspace, ...]
    keys: tuple[Key, ...]
    products: tuple[Product, ...] = ()
    notes: tuple[Cause, ...] = ()


def compare(
    reported: Sequence[Reported],
    recorded: Sequence[Recorded],
    *,
    open_day: date,
    notes: Sequence[Cause] = (),
) -> Comparison:
    """Return the comparison of both sides.

    ``open_day`` is the first day whose figures may still change, because calls are in flight or not
    yet in the report."""
    theirs = _group(reported, lambda item: (item.day, item.kind, item.model))
    ours = _group(recorded, lambda item: (item.day, item.kind, item.model))
    rows = [
        row
        for key in theirs.keys() | ours.keys()
        if not (row := _make_row(key, theirs.get(key, []), ours.get(key, []), open_day)).is_empty
    ]
    rows.sort(
        key=lambda row: (
            -row.day.toordinal(),
            -abs(row.difference.cost_cents),
            row.kind,
            row.model or "",
        )
    )
    total_reported, total_recorded = _sum(reported), _sum(recorded)
    return Comparison(
        reported=total_reported,
        recorded=total_recorded,
        difference=total_reported - total_recorded,
        rows=tuple(rows),
        workspaces=_make_workspaces(reported, recorded),
        keys=_make_keys(reported),
        products=_make_products(reported),
        notes=tuple(notes),
    )


def _group[Item, Group: Hashable](
    items: Iterable[Item], key: Callable[[Item], Group]
) -> dict[Group, list[Item]]:
    groups = defaultdict[Group, list[Item]](list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


def _sum(items: Iterable[Reported | Recorded]) -> Figures:
    return reduce(add, (item.figures for item in items), NOTHING)


def _make_row(
    key: tuple[date, str, str | None],
    reported: Sequence[Reported],
    recorded: Sequence[Recorded],
    open_day: date,
) -> Row:
    day, kind, model = key
    row = Row(
        day=day,
        kind=kind,
        model=model,
        reported=_sum(reported),
        recorded=_sum(recorded),
        difference=_sum(reported) - _sum(recorded),
    )
    if row.difference.is_negligible:
        return row
    return replace(row, causes=_find_causes(row, reported, recorded, open_day))


def _find_causes(
    row: Row, reported: Sequence[Reported], recorded: Sequence[Recorded], open_day: date
) -> tuple[Cause, ...]:
    """Return the likely causes of a difference.

    Causes in the report come first, then those in the recorded calls, then those that the rest
    suggests."""
    if row.kind not in (TOKENS, WEB_SEARCH):
        return (Cause(name="not_in_responses", cost_cents=row.reported.cost_cents),)
    counts = reduce(add, (item.counts for item in recorded), CallCounts())
    found, rest = _find_unrecorded(row, reported, recorded)
    tiers = _group(reported, lambda item: item.service_tier or _STANDARD)
    about_prices = [
        _measure("priority_tier" if tier.startswith(_PRIORITY) else "other_tier", _sum(items))
        for tier, items in sorted(tiers.items())
        if tier not in (_STANDARD, _BATCH)
    ]
    about_prices += _count_calls(unpriced=counts.unpriced, not_billed=counts.not_billed)
    found += about_prices
    if _has_discount(rest):
        found.append(Cause(name="discount", cost_cents=rest.discount_cents))
        rest = replace(rest, cost_cents=rest.list_cents)
    if rest.has_counts:
        found += _count_calls(
            estimates=counts.estimated, cut_streams=counts.cut, no_response=counts.no_response
        )
        found += _explain_counts(rest)
    elif not about_prices and abs(rest.cost_cents) >= NEGLIGIBLE_CENTS:
        found.append(Cause(name="prices", cost_cents=abs(rest.cost_cents)))
    if row.day >= open_day:
        found.append(Cause(name="in_flight"))
    return tuple(found)


def _find_unrecorded(
    row: Row, reported: Sequence[Reported], recorded: Sequence[Recorded]
) -> tuple[list[Cause], Figures]:
    """Return causes for reported usage that does not pass the proxy, and the difference without that."""
    parts = _group(reported, lambda item: _name_unrecorded(item) or "")
    sums = {name: _sum(items) for name, items in sorted(parts.items()) if name}
    if batches := [item for item in recorded if item.is_batch]:
        missing = sums.pop(_BATCHES, NOTHING) - _sum(batches)
        if missing.all_tokens > 0 or missing.web_search_requests > 0:
            sums[_BATCHES] = missing
    found = [
        _measure("batches", figures)
        if name == _BATCHES
        else replace(_measure("product", figures), product=name)
        for name, figures in sums.items()
        if figures != NOTHING
    ]
    return found, reduce(sub, sums.values(), row.difference)


def _name_unrecorded(item: Reported) -> str | None:
    """Return the product of usage that does not pass the proxy, or None if it may have passed."""
    if item.service_tier == _BATCH or item.product == _BATCHES:
        return _BATCHES
    return None if item.product in _PROXIED else item.product


def _has_discount(rest: Figures) -> bool:
    """Return whether a discount explains the difference in costs.

    If recorded costs agree better with upstream's charges than with its list price, it does not: they
    were recorded at contract prices."""
    return abs(rest.discount_cents) >= NEGLIGIBLE_CENTS and (
        rest.has_counts or abs(rest.list_cents) < abs(rest.cost_cents)
    )


def _measure(name: str, figures: Figures) -> Cause:
    return Cause(
        name=name, tokens=figures.all_tokens or None, cost_cents=figures.cost_cents or None
    )


def _count_calls(**calls: int) -> list[Cause]:
    return [Cause(name=name, calls=count) for name, count in calls.items() if count]


def _explain_counts(rest: Figures) -> list[Cause]:
    """Return the causes for missing counts: upstream or here, or both for different classes of tokens."""
    counts = [getattr(rest.tokens, name) or 0 for name in NAMES]
    missing = sum(count for count in counts if count > 0)
    surplus = -sum(count for count in counts if count < 0)
    searches = rest.web_search_requests
    causes = []
    if missing or searches > 0:
        causes.append(Cause(name="not_proxied", tokens=missing or None))
    if surplus or searches < 0:
        causes.append(Cause(name="not_reported", tokens=surplus or None))
    return causes


def _make_workspaces(
    reported: Sequence[Reported], recorded: Sequence[Recorded]
) -> tuple[Workspace, ...]:
    theirs = _group(reported, lambda item: item.workspace_id)
    ours = _group(
        (item for item in recorded if item.workspace_id is not None),
        lambda item: item.workspace_id,
    )
    workspaces = [
        Workspace(
            workspace_id=workspace_id,
            reported=_sum(theirs.get(workspace_id, [])),
            recorded=_sum(ours[workspace_id]) if workspace_id in ours else None,
        )
        for workspace_id in theirs.keys() | ours.keys()
    ]
    workspaces.sort(key=lambda each: (-each.reported.cost_cents, each.workspace_id or ""))
    return tuple(workspaces)


def _make_keys(reported: Sequence[Reported]) -> tuple[Key, ...]:
    used = (item for item in reported if item.figures.has_counts)
    groups = _group(used, lambda item: (item.api_key_id, item.workspace_id))
    keys = [
        Key(api_key_id=key_id, workspace_id=workspace_id, reported=_sum(items))
        for (key_id, workspace_id), items in groups.items()
    ]
    keys.sort(key=lambda each: (-each.reported.all_tokens, each.api_key_id or ""))
    return tuple(keys)


def _make_products(reported: Sequence[Reported]) -> tuple[Product, ...]:
    if all(item.product is None for item in reported):
        return ()
    products = [
        Product(
            product=product,
            requests=sum(item.requests for item in items),
            reported=_sum(items),
        )
        for product, items in _group(reported, lambda item: item.product).items()
    ]
    products.sort(key=lambda each: (-each.reported.cost_cents, each.product or ""))
    return tuple(products)
