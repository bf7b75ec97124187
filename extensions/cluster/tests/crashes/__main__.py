"""``python -m extensions.cluster.tests.crashes``: all cases, for as many minutes as asked for."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from extensions.cluster.tests.crashes import report
from extensions.cluster.tests.crashes.node_cases import NODE_CASES
from extensions.cluster.tests.crashes.running import Cluster, open_cluster
from extensions.cluster.tests.crashes.scene import Case
from extensions.cluster.tests.crashes.server_cases import SERVER_CASES
from tests.faults.choosing import ONLY, find_named
from tests.faults.report import format_head, format_line, sum_up
from tests.redis_server import SERVER


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m extensions.cluster.tests.crashes", description=__doc__
    )
    parser.add_argument("--minutes", type=float, default=0, help="0: each case once")
    parser.add_argument("--rate", type=float, default=25, help="calls a second")
    parser.add_argument("--lasts", type=float, default=4, help="seconds that a lasting fault lasts")
    parser.add_argument("--only", default="", help=ONLY)
    parser.add_argument("--json", type=Path, help="where to write the report, after each case")
    options = parser.parse_args()
    if SERVER is None:
        sys.exit("there is no redis-server: apt-get install redis-server")
    cases = find_named((*NODE_CASES, *SERVER_CASES), options.only)
    ends_s = time.monotonic() + 60 * options.minutes
    totals = run(cases, options.rate, options.lasts, ends_s, options.json)
    print(", ".join(f"{name} {value}" for name, value in totals.items()))
    sys.exit(any(totals[name] for name in ("lost", "double", "wrong", "disturbed")))


def run(
    cases: Sequence[Case[Cluster]], rate: float, lasts_s: float, ends_s: float, target: Path | None
) -> dict[str, int]:
    """Run the cases until the time is over, once at least, and return the totals."""
    records: list[dict[str, Any]] = []
    print(format_head(report.COLUMNS), flush=True)

    def note(problems: Sequence[str]) -> None:
        records[-1]["wrong"] += problems
        for problem in problems:
            print(f"    verify: {problem}", flush=True)

    with (
        TemporaryDirectory(prefix="taximeter-crashes-") as folder,
        open_cluster(Path(folder), rate, lasts_s) as cluster,
    ):
        while True:
            for case in cases:
                result = cluster.run(case, calls=int(2 * rate))
                record = report.make_record(result)
                records.append(record)
                print(format_line(record, report.COLUMNS), flush=True)
                for sentence in [*record["wrong"][:5], *record["details"][:5]]:
                    print(f"    {sentence}", flush=True)
                write(target, records)
            note(cluster.verify())
            if time.monotonic() > ends_s:
                break
    write(target, records)
    return sum_up(records, report.COUNTS)


def write(target: Path | None, records: Sequence[dict[str, Any]]) -> None:
    """Write the report as far as it has come."""
    if target is not None:
        document = {"totals": sum_up(records, report.COUNTS), "cases": records}
        target.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
