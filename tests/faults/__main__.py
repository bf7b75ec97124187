"""``python -m tests.faults``: all cases, again and again for as many minutes as asked for."""

import argparse
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.faults import report
from tests.faults.cases import CASES
from tests.faults.choosing import ONLY, find_named
from tests.faults.running import MissingError, choose, open_scene
from tests.faults.scene import Case, Needs

P99_MS = 100.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0, help="0: each case once")
    parser.add_argument("--rate", type=float, default=25, help="calls a second")
    parser.add_argument(
        "--lasts", type=float, default=10, help="seconds that a lasting fault lasts"
    )
    parser.add_argument("--only", default="", help=ONLY)
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--strict", action="store_true", help="fail above 100 ms at p99, too")
    options = parser.parse_args()
    cases = find_named(CASES, options.only)
    ends_s, records, skipped = time.monotonic() + 60 * options.minutes, [], {}
    print(report.format_head(report.COLUMNS), flush=True)
    while True:
        for needs in dict.fromkeys(case.needs for case in cases):
            try:
                records += run(choose(cases, needs), options.rate, options.lasts, needs)
            except MissingError as error:
                skipped[str(needs)] = str(error)
        if time.monotonic() > ends_s:
            break
    totals = report.sum_up(records, report.COUNTS)
    print(", ".join(f"{name} {value}" for name, value in totals.items()))
    for missing, reason in skipped.items():
        print(f"left out what needs a {missing}: {reason}")
    slow = [
        f"{each['case']} ({each['p99_ms']:g}, control {each['control_p99_ms'] or 0:g})"
        for each in records
        if (each["p99_ms"] or 0) > P99_MS
    ]
    print(f"p99 above {P99_MS:g} ms: {', '.join(slow) or 'never'}")
    if options.json:
        document = {
            "totals": totals,
            "skipped": skipped,
            "p99_target_ms": P99_MS,
            "cases": records,
        }
        options.json.write_text(json.dumps(document, indent=1))
    is_bad = any(totals[name] for name in ("lost", "double", "wrong", "disturbed"))
    sys.exit(is_bad or (options.strict and bool(slow)))


def run(
    cases: list[Case], rate: float, lasts_s: float, needs: Needs | None
) -> list[dict[str, Any]]:
    """Run cases on a new service, and return their records. Raises MissingError."""
    records = []
    with (
        TemporaryDirectory(prefix="taximeter-faults-") as folder,
        open_scene(Path(folder), rate, lasts_s, needs, with_control=True) as scene,
    ):
        for case in cases:
            result = scene.run(case, calls=int(2 * rate))
            record = report.make_record(result)
            record["wrong"] += result.find_growth()
            records.append(record)
            print(report.format_line(record, report.COLUMNS), flush=True)
            for sentence in [*record["wrong"][:5], *record["details"][:5]]:
                print(f"    {sentence}", flush=True)
        problems = scene.verify()
        records[-1]["wrong"] += problems
        for problem in problems:
            print(f"    verify: {problem}", flush=True)
    return records


if __name__ == "__main__":
    main()
