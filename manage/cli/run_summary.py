"""The summary of a run: its calls and what they cost, as lines of text."""

from manage.api.usage_operations import Run
from manage.cli.terminal import format_cost, make_table
from manage.cli.usage_cells import COUNT_HEADINGS, count_cells
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
    lines.append(f"taximeter: {format_calls(totals.calls)}, {format_cost(totals.cost_cents)}")
    if totals.calls:
        rows = [(each.model or "(not known)", *count_cells(each)) for each in run.models]
        lines += make_table(("MODEL", *COUNT_HEADINGS), rows, right=COUNT_HEADINGS)
    if totals.unpriced:
        lines.append(f"{format_calls(totals.unpriced)} without a known price, not in the cost.")
    if run.pending:
        lines.append(f"{format_calls(run.pending)} not recorded yet, not in the totals.")
    page = f"{base_url}/traces/usage?run_id={run.run_id}"
    lines.append(f"Each call: {page}" if is_running else f"Each call: `taximeter up`, then {page}")
    return lines
