"""Texts for the causes and notes of a reconciliation, for the terminal and for pages."""

from extensions.reconcile.comparison import TOKENS, WEB_SEARCH, Cause
from metering.formats import format_cents_for_column, format_number

_KINDS = {
    TOKENS: "(not named)",
    WEB_SEARCH: "web searches",
    "code_execution": "code execution",
    "session_usage": "managed sessions",
}
# Name: a title, and one sentence or two for people.
CAUSES: dict[str, tuple[str, str]] = {
    "batches": (
        "batches",
        "Most clients fetch the results of message batches past the proxy, and these are not recorded."
        " taximeter import batch imports them.",
    ),
    "product": (
        "another product",
        "Upstream names a product whose usage does not pass through the proxy: its Console, managed agents"
        " or claude.ai, for example. The figures are those of the report.",
    ),
    "priority_tier": (
        "priority tier",
        "Upstream bills the priority tier by commitment, and its cost report leaves it out. Recorded"
        " calls have their list price.",
    ),
    "other_tier": (
        "other service tier",
        "Upstream bills this service tier at prices of its own. Recorded calls have the list price.",
    ),
    "unpriced": (
        "no known price",
        "The price of these recorded calls is not known, so their cost is missing. Add a price and run"
        " taximeter reprice.",
    ),
    "estimates": (
        "estimates",
        "The end of these recorded calls never came. Their output is estimated.",
    ),
    "cut_streams": (
        "cut streams",
        "These recorded calls ended before their final usage came. Upstream bills the output that it"
        " had made until then.",
    ),
    "no_response": (
        "no response",
        "These calls were sent and no usage came back. Upstream may have billed them.",
    ),
    "not_billed": (
        "refusals",
        "Upstream does not bill some passes of these recorded calls, for example early refusals. Its"
        " usage report may count their tokens.",
    ),
    "not_proxied": (
        "not proxied",
        "Upstream reports more tokens or searches than were recorded. Calls of this upstream"
        " organisation may go upstream directly, through the Console, or through endpoints of"
        " another Taximeter organisation.",
    ),
    "not_reported": (
        "not reported",
        "More tokens or searches were recorded than upstream reports. Calls may use keys of another"
        " upstream organisation or a subscription, belong to the next or previous day in the report,"
        " or not be in the report yet.",
    ),
    "discount": (
        "discount",
        "Upstream charges less than its own list price. It is told apart from other differences in price"
        " with --analytics alone, and not named where recorded costs are at what upstream charges.",
    ),
    "prices": (
        "prices",
        "All counts agree and the cost does not: contract prices or discounts, a changed price, fallback"
        " credit, or cache writes with another time to live than recorded.",
    ),
    "not_in_responses": (
        "not in responses",
        "Upstream bills this apart from tokens, and responses do not say how much: code execution"
        " or sessions, for example.",
    ),
    "in_flight": (
        "day not over",
        "Calls of this day are still in flight, or not yet in the report.",
    ),
    # About the whole period.
    "subscription": (
        "subscription",
        "These recorded calls were covered by a subscription. The reports do not have them, and they"
        " are left out. Their cost here is their value at list prices.",
    ),
    "customer": (
        "paid by customers",
        "Customers paid for these recorded calls (linked billing). They are in the reports of their"
        " organisations and are left out. Their cost here is their value at list prices.",
    ),
    "other_upstream": (
        "other upstream",
        "These recorded calls went to an upstream that their endpoint has of its own, which bills them. They"
        " are left out.",
    ),
    "other_organization": (
        "other upstream organisation",
        "These recorded calls went to another upstream organisation than that of the key."
        " They are left out.",
    ),
    "pruned": (
        "removed by retention",
        "These recorded calls have been removed by retention. Their days are from hourly sums: without"
        " workspaces, without a count of estimates, cut streams and refusals, and without leaving out"
        " other upstreams and upstream organisations. Web searches are at their list price. Sums of calls that were"
        " removed before billing was kept include web searches in the cost of the model, and calls that a"
        " subscription covers.",
    ),
    "missing_days": (
        "days without a report",
        "The usage report has nothing for some days of this period, not even an empty list.",
    ),
}


def get_title(name: str) -> str:
    """Return the short title of a cause or note, or ``name`` if this version does not know it."""
    return CAUSES.get(name, (name, ""))[0]


def get_explanation(name: str) -> str:
    """Return one or two sentences about a cause or note, empty if this version does not know it."""
    return CAUSES.get(name, ("", ""))[1]


def format_cause(cause: Cause) -> str:
    """Return the title of a cause with its amounts: ``batches (1,200 tokens, $0.5000)``."""
    parts = [] if cause.product is None else [cause.product]
    parts += [
        format_number(count, noun)
        for count, noun in ((cause.calls, "call"), (cause.tokens, "token"), (cause.days, "day"))
        if count is not None
    ]
    if cause.cost_cents is not None:
        parts.append(format_cents_for_column(cause.cost_cents))
    return f"{get_title(cause.name)} ({', '.join(parts)})" if parts else get_title(cause.name)


def describe_kind(kind: str) -> str:
    """Return a name for a row without a model, or upstream's name if none is known."""
    return _KINDS.get(kind, kind)
