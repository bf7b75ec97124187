"""``python -m tests.faults.soak --minutes 60 --rate 50``: what grows while nothing is broken.

Memory and descriptors of each process, and the disk, are noted between stretches of load, when no call is
in flight; the rows of each stretch are compared as after a fault.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.commits import find_commit
from runtime import clock
from tests.faults.plot import Panel, draw
from tests.faults.running import open_scene
from tests.faults.scene import Scene
from tests.faults.usage import measure
from tests.live.service import Service

MOST_MB, MOST_SHARE = 10.0, 0.10  # that a process may grow from the third quarter to the last
MOST_FDS = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory and descriptors of each process, and the size of the data directory, at an instant."""

    minute: float
    calls: int
    memory_mb: Mapping[str, float]
    descriptors: Mapping[str, int]
    disk_mb: dict[str, float]


def take_sample(service: Service, minute: float, calls: int) -> Sample:
    usage = measure(service)
    disk_mb = _measure_disk(service.data_dir)
    return Sample(minute, calls, usage.memory_mb, usage.descriptors, disk_mb)


def _measure_disk(data_dir: Path) -> dict[str, float]:
    sizes = {"databases": 0, "write-ahead logs": 0, "spool": 0, "other": 0}
    for path in data_dir.rglob("*"):
        kind = "spool" if "spool" in path.parts else "other"
        kind = {".db": "databases", ".db-wal": "write-ahead logs"}.get(path.suffix, kind)
        with suppress(FileNotFoundError):
            sizes[kind] += path.stat().st_blocks * 512 if path.is_file() else 0
    return {kind: size / 1e6 for kind, size in sizes.items()}


def find_growth(samples: Sequence[Sample]) -> list[str]:
    """Return what grew from the third quarter of the samples to the last one.

    Until then memories that are bounded should be full: that of the recorder takes 64 MB of requests, some
    6,500 calls of this load. Databases grow with the calls, so it is the bytes of a call that must not."""
    quarter = len(samples) // 4
    if quarter == 0:
        return ["too few samples"]
    early, late = samples[-2 * quarter : -quarter], samples[-quarter:]
    found = []
    for name in samples[-1].memory_mb:
        before, after = (
            statistics.median(each.memory_mb.get(name, 0.0) for each in part)
            for part in (early, late)
        )
        if after - before > max(MOST_MB, MOST_SHARE * before):
            found.append(f"memory of {name}: {before:.1f} to {after:.1f} MB")
        before, after = (
            statistics.median(each.descriptors.get(name, 0) for each in part)
            for part in (early, late)
        )
        if after - before > MOST_FDS:
            found.append(f"descriptors of {name}: {before:g} to {after:g}")
    before, after = (_bytes_per_call(part) for part in (samples[: 2 * quarter], samples[-quarter:]))
    if after > 1.2 * before:
        found.append(f"bytes stored of a call: {before:.0f} to {after:.0f}")
    return found


def _bytes_per_call(samples: Sequence[Sample]) -> float:
    first, last = samples[0], samples[-1]
    grown = last.disk_mb["databases"] - first.disk_mb["databases"]
    return grown * 1e6 / max(1, last.calls - first.calls)


def run(scene: Scene, seconds: float, every_s: float) -> tuple[list[Sample], dict[str, int]]:
    """Let the load go on, and return the samples and the faults that were found."""
    totals = dict.fromkeys(("calls", "lost", "double", "wrong", "disturbed"), 0)
    begun_s = time.monotonic()
    samples = []
    while (now_s := time.monotonic() - begun_s) < seconds:
        scene.load.resume()
        ends_s = now_s + every_s
        while time.monotonic() - begun_s < ends_s:
            scene.load.wait_for(1)
        verdict = scene.settle()
        totals["calls"] += verdict.calls
        for name in ("lost", "double", "wrong", "disturbed"):
            totals[name] += len(getattr(verdict, name))
        minute = (time.monotonic() - begun_s) / 60
        samples.append(take_sample(scene.service, minute, totals["calls"]))
        memory = ", ".join(f"{name} {mb:.0f}" for name, mb in samples[-1].memory_mb.items())
        print(f"{minute:6.1f} min  {totals}  MB: {memory}", flush=True)
    totals["verify"] = len(scene.verify())
    return samples, totals


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=50.0, help="calls a second, at most 75")
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two samples")
    parser.add_argument("--json", type=Path, default=Path("soak.json"))
    parser.add_argument("--svg", type=Path, default=Path("soak.svg"))
    options = parser.parse_args()
    with (
        TemporaryDirectory(prefix="taximeter-soak-") as folder,
        open_scene(Path(folder), options.rate, 0) as scene,
    ):
        samples, totals = run(scene, 60 * options.minutes, options.every)
    growth = find_growth(samples)
    rate = totals["calls"] / (60 * samples[-1].minute)
    title = f"{totals['calls']:,} calls at {rate:.0f} a second for {samples[-1].minute:.0f} minutes"
    document = {
        "title": title,
        "at": clock.format_ms(clock.now()),
        "commit": find_commit(),
        "command": f"python -m tests.faults.soak --minutes {options.minutes:g} --rate {options.rate:g}",
        "totals": totals,
        "growth": growth,
        "bytes_per_call": round(_bytes_per_call(samples)),
        "samples": [
            {name: getattr(each, name) for name in Sample.__dataclass_fields__} for each in samples
        ],
    }
    options.json.write_text(json.dumps(document, indent=1))
    options.svg.write_text(draw(title, [each.minute for each in samples], make_panels(samples)))
    print(title, totals, *growth or ["nothing grew"], sep="\n")
    is_bad = growth or any(value for name, value in totals.items() if name != "calls")
    sys.exit(bool(is_bad))


def make_panels(samples: Sequence[Sample]) -> list[Panel]:
    """Return the panels of the plot."""
    names = samples[-1].memory_mb
    return [
        Panel(
            "Memory of its own, MB",
            {name: [each.memory_mb.get(name, 0.0) for each in samples] for name in names},
        ),
        Panel(
            "Descriptors",
            {name: [each.descriptors.get(name, 0) for each in samples] for name in names},
        ),
        Panel(
            "Disk, MB",
            {kind: [each.disk_mb[kind] for each in samples] for kind in samples[-1].disk_mb},
        ),
    ]


if __name__ == "__main__":
    main()
