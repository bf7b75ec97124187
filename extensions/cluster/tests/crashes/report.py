"""The report of the programme: a table for people, JSON for programs."""

from typing import Any

from extensions.cluster.tests.crashes.scene import Result
from tests.faults.report import describe

COLUMNS = (
    *("calls", "rows", "lost", "double", "wrong", "disturbed", "excused", "at_limit", "p50_ms"),
    *("p99_ms", "seconds"),
)
COUNTS = ("calls", "rows", "lost", "double", "disturbed", "excused", "at_limit")


def make_record(result: Result) -> dict[str, Any]:
    """Return a result as JSON has it. ``at_limit`` are calls that were refused since their endpoint was
    at its limit, and ``excused`` those whose own proxy died."""
    verdict = result.verdict
    return describe(result.name, verdict, result.seconds) | {
        "excused": verdict.excused - result.refused,
        "at_limit": result.refused,
    }
