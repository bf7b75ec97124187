"""The figures of the home page's chart as an SQL query, for people to read and edit."""

from dashboard.home.choice import Choice
from metering.token_counts import PROMPT_CLASSES
from store.traces.sums.overview_query import AGENT_COLUMNS, COLUMNS, SAID_COLUMNS

_SUMS = (
    f"sum(entries) as calls, sum(errors) as failed, sum({' + '.join(each.name for each in PROMPT_CLASSES)})"
    " as tokens_in, sum(output_tokens) as tokens_out, sum(cost_cents) as cost_cents"
)


def write_sql(choice: Choice) -> str:
    """Return a query over the tables of sums that have the chosen group and filters."""
    period, columns = choice.period, COLUMNS
    table, day, said = "usage_daily", "day", ""
    if choice.group in SAID_COLUMNS and not choice.filters.values:
        table, day, columns = "tags_hourly", "hour", dict.fromkeys(SAID_COLUMNS, "value")
        said = f"name = '{choice.group}'"
    elif {*choice.filters.values, choice.group} & AGENT_COLUMNS.keys():
        table, columns = "agents_daily", AGENT_COLUMNS
    elif period.step == "hour":
        table, day = "usage_hourly", "hour"
    group = columns.get(choice.group, "'all'")
    last = f"{period.last}~" if day == "hour" else f"{period.last}"  # "~" is behind its hours
    conditions = [
        f"{day} between '{period.first}' and '{last}'",
        *(
            f"{columns[name]} = {_quote(value)}"
            for name, value in choice.filters.values.items()
            if name in columns
        ),
        *([said] if said else []),
    ]
    return (
        f"select {day}, {group}, {_SUMS} from {table}"  # noqa: S608 - people read it, and run it as their own
        f" where {' and '.join(conditions)} group by 1, 2 order by 1 desc, cost_cents desc"
    )


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
