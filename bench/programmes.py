"""The fault programme and the attack programme in their long forms, as figures.

``python -m tests.faults`` kills and stops each process of the service, takes away its disk,
descriptors and memory, and makes upstream fail, all under load, and compares what upstream and clients
saw with what is recorded. ``python -m tests.hostile`` attacks the proxy and measures how long other
clients wait meanwhile."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Figure, make_figure
from bench.load import REPOSITORY, BenchError
from bench.options import Options

KILLS = "kill -9"  # what cases with it begin with
MOST_DETAILS = 5
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
    for name in dict.fromkeys(each["case"] for each in report["cases"]):
        runs = [each for each in report["cases"] if each["case"] == name]
        yield make_wait_figure(name, runs, report["p99_target_ms"])
    for missing, reason in report["skipped"].items():
        yield Figure(
            row=f"faults/skipped/{missing}", title=f"faults of a {missing}", value=None, note=reason
        )


def make_wait_figure(name: str, runs: Sequence[Mapping[str, Any]], target_ms: float) -> Figure:
    """Return how long clients waited during a case that excuses no waits, over all its runs."""
    controls = [each["control_p99_ms"] for each in runs if each["control_p99_ms"] is not None]
    calls = sum(each["calls"] for each in runs)
    return make_figure(
        f"faults/p99/{name}",
        f"other clients' p99: {name}",
        [each["p99_ms"] for each in runs if each["p99_ms"] is not None],
        "ms",
        target=target_ms,
        note=f"{calls:,} calls{describe_control(median(controls) if controls else None, 'fault')}",
    )


def describe_control(control_ms: float | None, what: str) -> str:
    """Return a note with the p99 wait of clients of a second service without ``what``, empty if unknown."""
    return "" if control_ms is None else f"; {control_ms:g} ms without the {what} meanwhile"


def measure_attacks(options: Options) -> Iterator[Figure]:
    """Yield how long other clients wait during each attack, and the harm done. Raises BenchError."""
    seconds = options.choose(SECONDS, QUICK_SECONDS)
    with options.folder() as folder:
        report = run("tests.hostile", ["--seconds", f"{seconds:g}"], folder / "report.json")
    yield from make_attack_figures(report)


def make_attack_figures(report: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of a report of the attack programme.

    An attack has a row if others made enough calls meanwhile for a p99, or if it did harm."""
    for attack in report["attacks"]:
        if attack["p99_ms"] is not None or attack["harm"] is not None:
            yield make_attack_figure(attack, "", "", report["p99_target_ms"])
        if attack["pages_p99_ms"] is not None:
            yield make_attack_figure(attack, "pages_", " for pages", report["p99_target_ms"])
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


def make_attack_figure(
    attack: Mapping[str, Any], kind: str, of_what: str, target_ms: float
) -> Figure:
    """Return how long others waited during an attack, and in the note the harm that it did, if any."""
    p99_ms, harm = attack[f"{kind}p99_ms"], attack["harm"]
    control = describe_control(attack[f"control_{kind}p99_ms"], "attack")
    return Figure(
        row=f"attacks/{kind}p99/{attack['name']}",
        title=f"other clients' p99{of_what}: {attack['name']}",
        value=p99_ms,
        unit="ms",
        target=None if p99_ms is None else target_ms,
        note=f"{attack['calls']} calls{control}{f'; HARMFUL: {harm}' if harm else ''}",
    )


def sum_up(row: str, title: str, cases: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Yield the numbers of lost, duplicate, wrong and disturbed calls over all cases together."""
    calls = sum(case["calls"] for case in cases)
    names = len({case["case"] for case in cases})
    note = f"{names} cases, {len(cases)} times in all, {calls:,} calls"
    found = [
        f"{case['case']}: {what}" for case in cases for what in (*case["wrong"], *case["details"])
    ]
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
            note="; ".join([note, *found[:MOST_DETAILS]]),
        )


def _count(found: int | Sequence[str]) -> int:
    return found if isinstance(found, int) else len(found)


def run(module: str, arguments: Sequence[str], path: Path) -> Mapping[str, Any]:
    """Run a programme of the tests and return its report. Raises BenchError if it made none."""
    command = [sys.executable, "-m", module, *arguments, "--json", str(path)]
    done = subprocess.run(  # noqa: S603 - this Python
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if not path.exists():
        raise BenchError(f"{module} failed: {(done.stderr or done.stdout)[-500:]}")
    report: Mapping[str, Any] = json.loads(path.read_text())
    return report
