"""SQL for calls as rows like those of ``usage_hourly``: one for each call, and one for each line item.

Tokens and cents belong to the model that ran each pass, and the call itself to the model of its
response, as in hourly sums. So a sum over these rows equals the hourly sums of the same calls. A
call whose response named no model has the name of ``requested_models`` here; its line items, if
any, have none."""

from collections.abc import Mapping

from metering import token_counts
from store.traces.sums import booking_sql, requested_models

_OF_LINE = {
    "cost_cents": "coalesce(c.cents, 0)",
    "estimated_cents": "case when c.estimated then coalesce(c.cents, 0) else 0 end",
} | {
    name: f"case when {booking_sql.OF_LINE[name]} then c.quantity else 0 end"
    for name in (*token_counts.NAMES, "unbilled_tokens", "unpriced_tokens")
}
SUMS = (*booking_sql.OF_CALL, *_OF_LINE)
BILLING = f"coalesce({booking_sql.BILLING}, '')"
_MODEL = f"coalesce(u.model, {requested_models.NAME})"
_ZERO = dict.fromkeys(SUMS, "0")


def make_source(where: str, keys: Mapping[str, str] | None = None) -> str:
    """Return a sub-query for rows of calls with the columns ``model``, ``billing``, ``keys``, ``SUMS``.

    ``where`` is a condition on ``usage as u``. It occurs twice, so positional parameters must be given
    twice. ``keys`` are further columns by name, as SQL over ``u``."""
    return (
        f"({_select(_MODEL, keys or {}, booking_sql.OF_CALL, '', where)} union all"
        f" {_select('c.model', keys or {}, _OF_LINE, 'join usage_cost as c on c.usage_id = u.id', where)})"
    )


def _select(
    model: str, keys: Mapping[str, str], sums: Mapping[str, str], source: str, where: str
) -> str:
    columns = {"model": f"coalesce({model}, '')", "billing": BILLING}
    columns |= dict(keys) | _ZERO | dict(sums)
    selected = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    return f"select {selected} from usage as u {source} where {where}"  # noqa: S608 - our own text
