"""SQL expressions for the values that ``rollup`` adds to hourly sums.

They are over ``usage as u`` and ``usage_cost as c``. Reports and verification use them to compute
sums again from calls and their line items."""

from metering import token_counts
from metering.billed_passes import FIRST_FAILURE_STATUS, UNBILLED_OUTCOMES
from metering.components import CACHE_WRITE_1H, TOKEN_COMPONENTS, WEB_SEARCH
from metering.entry import NO_ERROR
from metering.refusals import STOP_REASON
from store.traces.sums.rollup import OVERAGE, PAID_BY_OTHERS, SUBSCRIPTION

# As ``metering.billed_passes.may_be_billed`` decides.
MAY_BE_BILLED = (
    f"(u.usage_source = 'none' and u.outcome not in {UNBILLED_OUTCOMES}"
    f" and coalesce(u.status_code, 0) < {FIRST_FAILURE_STATUS})"
)
# A call that may have tokens that are not billed, over the columns of ``usage``: a refusal, or an error.
# (So may the pass of a model that handed over to another; upstream leaves it out of the counts of the call.)
_MAY_BE_FREE = f"(stop_reason = '{STOP_REASON}' or status_code >= {FIRST_FAILURE_STATUS})"
# What a call adds to each sum.
OF_CALL = {
    "entries": "1",
    "errors": f"u.outcome not in {NO_ERROR}",
    "unpriced": "u.cost_cents is null and u.usage_source <> 'none'",
    "maybe_billed": MAY_BE_BILLED,
}
BILLING = (
    f"case when u.billing = '{SUBSCRIPTION}' and u.overage then '{OVERAGE}' else u.billing end"
)

# The money of a call, as sums of calls have it that are not kept by billing.
MONEY_OF_CALL = {
    "cost_cents": "coalesce(u.cost_cents, 0)",
    "estimated_cents": "coalesce(u.estimated_cents, 0)",
    "value_cents": f"case when {BILLING} in {PAID_BY_OTHERS} then coalesce(u.cost_cents, 0) else 0 end",
}


def _is_one_of(components: list[str]) -> str:
    return f"c.component in ({', '.join(f"'{name}'" for name in components)})"


# The line items whose quantity each class of tokens counts, and those that count any.
IS_OF_CLASS = {
    name: _is_one_of([each.name for each in TOKEN_COMPONENTS if each.counted_in == name])
    for name in token_counts.NAMES
}
_IS_TOKENS = _is_one_of([each.name for each in TOKEN_COMPONENTS])
IS_SEARCH = _is_one_of([WEB_SEARCH.name])
IS_BILLED = "c.unbilled_reason is null"
# The line items whose quantity each sum has.
OF_LINE = {name: f"{IS_BILLED} and {sql}" for name, sql in IS_OF_CLASS.items()} | {
    "cache_write_1h_tokens": f"{IS_BILLED} and {_is_one_of([CACHE_WRITE_1H])}",
    "web_search_requests": f"{IS_BILLED} and {IS_SEARCH}",
    "unbilled_tokens": f"not ({IS_BILLED}) and {_IS_TOKENS}",
    "unpriced_tokens": f"{IS_BILLED} and {_IS_TOKENS} and c.cents is null",
}
# The tokens of a call that are billed, over a row of ``usage``: what hourly sums count of it. Line items are
# read for the few calls alone of which not all may be billed, since a list sums a million.
BILLED_TOKENS = {
    name: f"case when {_MAY_BE_FREE} then (select total(c.quantity) from usage_cost as c"  # noqa: S608 - our own text
    f" where c.usage_id = usage.id and {IS_BILLED} and {sql})"
    f" else coalesce({name}, 0) end"
    for name, sql in IS_OF_CLASS.items()
}
