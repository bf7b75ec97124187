"""The report of the programme: a table for people, JSON for programs."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.faults.oracle import Verdict
from tests.faults.scene import Result

COLUMNS = (
    *("calls", "rows", "lost", "double", "wrong", "disturbed", "excused", "not_kept", "p50_ms"),
    *("p99_ms", "control_p99_ms", "fds", "memory_mb", "seconds"),
)
COUNTS = ("calls", "rows", "lost", "double", "disturbed", "excused", "not_kept")


def make_record(result: Result) -> dict[str, Any]:
    """Return a result as JSON has it. ``fds`` and ``memory_mb`` are what the service uses more than
    before the case, and ``control_p99_ms`` the p99 of the same load on another service meanwhile."""
    verdict, before, after = result.verdict, result.before, result.after
    return describe(result.case.name, verdict, result.seconds) | {
        "excused": verdict.excused,
        "not_kept": verdict.not_kept,
        "control_p99_ms": find_percentile(result.control_s, 99),
        "fds": after.total_descriptors - before.total_descriptors,
        "memory_mb": round(after.total_mb - before.total_mb, 1),
        "before": asdict(before),
        "after": asdict(after),
    }


def describe(case: str, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """Return what each programme says of a case that took so many seconds."""
    return {
        "case": case,
        "calls": verdict.calls,
        "rows": verdict.rows,
        "lost": len(verdict.lost),
        "double": len(verdict.double),
        "wrong": verdict.wrong,
        "disturbed": len(verdict.disturbed),
        "details": list(verdict.details.values()),
        "p50_ms": find_percentile(verdict.times_s, 50),
        "p99_ms": find_percentile(verdict.times_s, 99),
        "seconds": round(seconds, 1),
    }


def find_percentile(times_s: Sequence[float], percent: int) -> float | None:
    """Return the milliseconds that so many of a hundred calls took at most."""
    if len(times_s) < 2:
        return None
    return round(statistics.quantiles(times_s, n=100, method="inclusive")[percent - 1] * 1000, 1)


def format_head(columns: Sequence[str]) -> str:
    """Return the head of the table."""
    return " ".join([f"{'case':40}", *(f"{name.replace('_', ' '):>6}" for name in columns)])


def format_line(record: dict[str, Any], columns: Sequence[str]) -> str:
    """Return the line of a case in the table."""
    cells = [f"{record['case']:40}"]
    for name in columns:
        value = record[name]
        text = len(value) if isinstance(value, list) else "-" if value is None else value
        cells.append(f"{text:>{max(6, len(name))}}")
    return " ".join(cells)


def sum_up(records: Sequence[dict[str, Any]], counts: Sequence[str]) -> dict[str, int]:
    """Return the totals of all cases: their number, and the sums of these counts and of what was wrong."""
    totals = {name: sum(record[name] for record in records) for name in counts}
    return totals | {
        "cases": len(records),
        "wrong": sum(len(record["wrong"]) for record in records),
    }
