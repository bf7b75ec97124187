"""``python -m bench.soak FOLDER``: publishes a soak of the fault programme in the documentation.

Copies ``soak.json`` and ``soak.svg`` of the folder to ``docs``, and renews the part of
``docs/performance.md`` that describes them."""

import argparse
import json
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import documents
from bench.load import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "performance.md"
FOLDER = REPOSITORY / "docs"
NAMES = ("soak.json", "soak.svg")


def render_soak() -> str:
    """Return the Markdown on the stored soak, empty if there is none."""
    path = FOLDER / "soak.json"
    return describe(json.loads(path.read_text())) if path.exists() else "\n"


def describe(report: Mapping[str, Any]) -> str:
    """Return the report of a soak as Markdown: its conditions, its results, its plot and what grew."""
    totals = report["totals"]
    faults = ", ".join(
        f"{name} {totals[name]}" for name in ("lost", "double", "wrong", "disturbed")
    )
    faults += f"; faults that `taximeter verify` found {totals['verify']}"
    growth = "; ".join(report["growth"]) or "nothing grew"
    rows = [
        f"| {name} | {before:.0f} MB | {after:.0f} MB |" for name, before, after in compare(report)
    ]
    return "\n".join(
        [
            "",
            f"Measured on {report['at'][:10]} at commit `{report['commit']}` by `{report['command']}`:"
            f" {report['title']}; {faults}; {growth}; {report['bytes_per_call'] / 1000:.1f} KB on the"
            " disk for each call.",
            "",
            f"![{report['title']}](soak.svg)",
            "",
            "| memory of its own, median | second quarter of the time | last quarter |",
            "| --- | --- | --- |",
            *rows,
            "",
            "",
        ]
    )


def compare(report: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Return (process, MB in the second quarter, MB in the last quarter) for the memory of each process."""
    samples = report["samples"]
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return [
        (name, find_median(early, name), find_median(late, name))
        for name in samples[-1]["memory_mb"]
    ]


def find_median(samples: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(statistics.median(each["memory_mb"].get(name, 0.0) for each in samples))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    for name in NAMES:
        shutil.copyfile(folder / name, FOLDER / name)
    documents.renew(DOCUMENT)


if __name__ == "__main__":
    main()
