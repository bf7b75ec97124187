"""The report of the programme: a table for people, JSON for programs."""

from typing import Any

from extensions.cluster.tests.crashes.scene import Result
from tests.faults.report import describe

COLUMNS = (
    f"{'case':34} {'calls':>6} {'rows':>6} {'lost':>5} {'double':>6} {'wrong':>5} {'disturbed':>9}"
    f" {'excused':>7} {'at limit':>8} {'p50 ms':>7} {'p99 ms':>8} {'s':>6}"
)
COUNTS = ("calls", "rows", "lost", "double", "disturbed", "excused", "at_limit")


def make_record(result: Result) -> dict[str, Any]:
    """Return a result as JSON has it. ``at_limit`` are calls that were refused since their endpoint was
    at its limit, ``excused`` those whose own proxy died, and ``disturbances`` what became of the others."""
    verdict = result.verdict
    return describe(result.name, verdict, result.seconds) | {
        "disturbances": result.disturbances,
        "excused": verdict.excused - result.refused,
        "at_limit": result.refused,
    }


def format_line(record: dict[str, Any]) -> str:
    """Return the line of a result in the table."""
    return (
        f"{record['case']:34} {record['calls']:6} {record['rows']:6} {record['lost']:5}"
        f" {record['double']:6} {len(record['wrong']):5} {record['disturbed']:9}"
        f" {record['excused']:7} {record['at_limit']:8} {record['p50_ms'] or 0:7.1f}"
        f" {record['p99_ms'] or 0:8.1f} {record['seconds']:6.1f}"
    )
