"""The report of the programme: a table for people, JSON for programs."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.faults.scene import Result

COLUMNS = (
    f"{'case':40} {'calls':>6} {'rows':>6} {'lost':>5} {'double':>6} {'wrong':>5} {'disturbed':>9}"
    f" {'excused':>7} {'not kept':>8} {'p50 ms':>7} {'p99 ms':>7} {'fds':>5} {'MB':>6} {'s':>5}"
)


def make_record(result: Result) -> dict[str, Any]:
    """Return a result as JSON has it. ``fds`` and ``memory_mb`` are what the service uses more than
    before the case."""
    verdict = result.verdict
    times = sorted(verdict.times_s)
    quantiles = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else None
    return {
        "case": result.name,
        "calls": verdict.calls,
        "rows": verdict.rows,
        "lost": len(verdict.lost),
        "double": len(verdict.double),
        "wrong": verdict.wrong,
        "disturbed": len(verdict.disturbed),
        "excused": verdict.excused,
        "not_kept": verdict.not_kept,
        "p50_ms": quantiles and round(quantiles[49] * 1000, 1),
        "p99_ms": quantiles and round(quantiles[98] * 1000, 1),
        "fds": result.after.descriptors - result.before.descriptors,
        "memory_mb": round(result.after.memory_mb - result.before.memory_mb, 1),
        "before": asdict(result.before),
        "after": asdict(result.after),
        "seconds": round(result.seconds, 1),
    }


def format_line(record: dict[str, Any]) -> str:
    """Return the line of a result in the table."""
    p50, p99 = record["p50_ms"] or 0, record["p99_ms"] or 0
    return (
        f"{record['case']:40} {record['calls']:6} {record['rows']:6} {record['lost']:5}"
        f" {record['double']:6} {len(record['wrong']):5} {record['disturbed']:9}"
        f" {record['excused']:7} {record['not_kept']:8} {p50:7.1f} {p99:7.1f}"
        f" {record['fds']:+5} {record['memory_mb']:+6.1f} {record['seconds']:5.1f}"
    )


def sum_up(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the totals of all cases."""
    totals = {
        name: sum(record[name] for record in records)
        for name in ("calls", "rows", "lost", "double", "disturbed", "excused", "not_kept")
    }
    return totals | {
        "cases": len(records),
        "wrong": sum(len(record["wrong"]) for record in records),
    }
