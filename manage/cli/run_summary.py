"""What a run cost, as lines for the person who started it."""

from collections.abc import Mapping
from typing import Any

from manage.cli.terminal import format_cost, make_table
from manage.cli.usage_cells import COUNT_HEADINGS, count_cells


def describe_run(document: Mapping[str, Any], base_url: str, *, is_running: bool) -> list[str]:
    """Return the lines for the totals of a run. ``is_running``: the pages can be opened now."""
    totals, models, pending = document["totals"], document["models"], document["pending"]
    calls, unpriced = totals.get("calls") or 0, totals.get("unpriced") or 0
    lines = [""]
    if not calls and not pending:
        lines.append(
            "taximeter: no call of this run came through. The client may not use"
            " ANTHROPIC_BASE_URL, or have a setting of its own for it."
        )
        return lines
    lines.append(
        f"taximeter: {_count(calls, 'call')}, {format_cost(totals.get('cost_cents') or 0)}"
    )
    if calls:
        rows = [(each.get("model") or "(not known)", *count_cells(each)) for each in models]
        lines += make_table(("MODEL", *COUNT_HEADINGS), rows, right=COUNT_HEADINGS)
    if unpriced:
        lines.append(f"{_count(unpriced, 'call')} without a known price, not in the cost.")
    if pending:
        lines.append(f"{_count(pending, 'call')} not recorded yet, not in the totals.")
    page = f"{base_url}/traces/usage?run_id={document['run_id']}"
    lines.append(f"Each call: {page}" if is_running else f"Each call: `taximeter up`, then {page}")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
