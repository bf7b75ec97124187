"""The summary of a run: its calls and what they cost, as lines of text."""

from manage.api.usage_operations import Run, UsageTotals
from manage.cli.terminal import format_amount, make_table
from manage.cli.usage_cells import describe_open_costs, make_cells, name_group
from metering.formats import format_calls


def describe_run(run: Run, base_url: str, *, is_running: bool) -> list[str]:
    """Return the lines for the totals of a run. ``is_running``: the pages can be opened now."""
    totals = run.totals
    lines = [""]
    if not totals.calls and not run.pending:
        lines.append(
            "taximeter: no calls were made in this run. The client may not use"
            " ANTHROPIC_BASE_URL, or have a setting of its own for it."
        )
        return lines
    lines.append(f"taximeter: {format_calls(totals.calls)}, {_format_total(totals)}")
    if totals.calls:
        headings, cells = make_cells(run.models)
        rows = [
            (name_group(each, "model"), *counts)
            for each, counts in zip(run.models, cells, strict=True)
        ]
        lines += make_table(("MODEL", *headings), rows, right=headings)
    lines += describe_open_costs(totals)
    if run.pending:
        lines.append(f"{format_calls(run.pending)} not recorded yet, not in the totals.")
    page = f"{base_url}/traces/usage?run_id={run.run_id}"
    lines.append(f"Each call: {page}" if is_running else f"Each call: `taximeter up`, then {page}")
    return lines


def _format_total(totals: UsageTotals) -> str:
    cost = format_amount(totals.cost_cents)
    if not totals.estimated_cents:
        return cost
    return f"{cost}, of which {format_amount(totals.estimated_cents)} estimated"
