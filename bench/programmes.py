"""The fault programme and the attack programme in their long forms, as figures.

``python -m tests.faults`` kills each process of the service, stops it, takes its disk, descriptors and
memory away, and lets upstream fail, all under load, and compares what upstream and clients saw with what is
recorded. ``python -m tests.hostile`` attacks the proxy while other clients call: how long they wait.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.load import REPOSITORY, BenchError
from bench.options import Options

KILLS = "kill -9"  # what cases with it begin with
MINUTES, SECONDS, QUICK_SECONDS, LIMIT_S = 10, 10.0, 2.0, 3600.0


def measure_faults(options: Options) -> Iterator[Figure]:
    """Yield the figures of killing processes, and of all other faults. Raises BenchError."""
    arguments = ["--only", KILLS] if options.is_quick else ["--minutes", str(MINUTES)]
    with options.folder() as folder:
        yield from make_fault_figures(run("tests.faults", arguments, folder / "report.json"))


def make_fault_figures(report: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of a report of the fault programme."""
    kills = [each for each in report["cases"] if each["case"].startswith(KILLS)]
    others = [each for each in report["cases"] if not each["case"].startswith(KILLS)]
    yield from sum_up("kills", f"{KILLS} of every process under load", kills)
    if others:
        yield from sum_up("faults", "other faults under load", others)
    for missing, reason in report["skipped"].items():
        yield Figure(
            row=f"faults/skipped/{missing}", title=f"faults of a {missing}", value=None, note=reason
        )


def measure_attacks(options: Options) -> Iterator[Figure]:
    """Yield how long other clients wait during each attack, and what it did. Raises BenchError."""
    seconds = options.choose(SECONDS, QUICK_SECONDS)
    with options.folder() as folder:
        report = run("tests.hostile", ["--seconds", f"{seconds:g}"], folder / "report.json")
    yield from make_attack_figures(report)


def make_attack_figures(report: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of a report of the attack programme.

    An attack has a row where others made enough calls meanwhile for a p99, and where it did harm."""
    for attack in report["attacks"]:
        p99_ms, harm = attack["p99_ms"], attack["harm"]
        if p99_ms is None and harm is None:
            continue
        control_ms = attack["control_p99_ms"]
        control = "" if control_ms is None else f"; {control_ms:g} ms without the attack meanwhile"
        yield Figure(
            row=f"attacks/p99/{attack['name']}",
            title=f"other clients' p99: {attack['name']}",
            value=p99_ms,
            unit="ms",
            target=None if p99_ms is None else report["p99_target_ms"],
            note=f"{attack['calls']} calls{control}{f'; HARMFUL: {harm}' if harm else ''}",
        )
    for name, what in (
        ("harmful", "attacks that did harm"),
        ("lost", "entries of others lost"),
        ("double", "entries of others twice"),
    ):
        yield Figure(
            row=f"attacks/{name}",
            title=f"attacks on the proxy: {what}",
            value=float(report[name]),
            target=0.0,
            note=f"{report['cases']} cases, {report['calls']:,} calls of others",
        )


def sum_up(row: str, title: str, cases: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Yield what went wrong in all of the cases together."""
    calls = sum(case["calls"] for case in cases)
    names = len({case["case"] for case in cases})
    note = f"{names} cases, {len(cases)} times in all, {calls:,} calls"
    for name, what in (
        ("lost", "entries lost"),
        ("doubled", "entries twice"),
        ("wrong", "entries that differ"),
        ("disturbed", "calls disturbed besides those of a killed proxy"),
    ):
        yield Figure(
            row=f"{row}/{name}",
            title=f"{title}: {what}",
            value=float(
                sum(_count(case["double" if name == "doubled" else name]) for case in cases)
            ),
            target=0.0,
            note=note,
        )


def _count(found: int | Sequence[str]) -> int:
    return found if isinstance(found, int) else len(found)


def run(module: str, arguments: Sequence[str], path: Path) -> Mapping[str, Any]:
    """Run a programme of the tests and return its report. Raises BenchError where it made none."""
    command = [sys.executable, "-m", module, *arguments, "--json", str(path)]
    done = subprocess.run(  # noqa: S603 - this Python
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if not path.exists():
        raise BenchError(f"{module} failed: {(done.stderr or done.stdout)[-500:]}")
    report: Mapping[str, Any] = json.loads(path.read_text())
    return report
