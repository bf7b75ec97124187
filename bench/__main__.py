"""``./run.sh bench``: every figure that the project promises, in one run and one table.

Each section starts the programs that it compares, all on loopback and each in its own process, and
ends them. The exit status is 1 if a section fails, for example because a call did not become exactly
one complete row; a missed target is only reported in its row. With --json each section is written to
the file once it has ended, and the same command with the same file continues with the missing
sections."""

import argparse
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from platformdirs import user_cache_path

from bench import cluster, cpu, pages, programmes, searching, storage, streams, workers
from bench.commits import find_commit
from bench.figures import Figure, Results, Section, format_row, summarize
from bench.load import BenchError, Neighbours
from bench.options import Options
from bench.peers import install_peers
from runtime import clock

SECTIONS: Mapping[str, Callable[[Options], Iterator[Figure]]] = {
    "cpu": cpu.measure,
    "workers": workers.measure,
    "streams": streams.measure,
    "storage": storage.measure,
    "pages": pages.measure,
    "indexing": searching.measure,
    "cluster": cluster.measure,
    "faults": programmes.measure_faults,
    "attacks": programmes.measure_attacks,
}
PARTS: Mapping[str, Sequence[str]] = {
    "cpu": [case.name for case in cpu.CASES],
    "workers": workers.PARTS,
    "streams": list(streams.MEASUREMENTS),
    "cluster": cluster.PARTS,
}
# The options whose values are places of this machine.
PATHS = ("--json", "--dir", "--peers-dir")


def run_section(name: str, options: Options) -> tuple[Section, str | None]:
    """Run a section and print its rows. Return the section and an error message, None if it succeeded."""
    neighbours, began_s = Neighbours(), time.monotonic()
    figures: list[Figure] = []
    failure = None
    try:
        for figure in SECTIONS[name](options):
            figures.append(figure)
            print(format_row(figure), flush=True)
    except BenchError as error:
        failure = f"{name}: {error}"
        print(failure, flush=True)
    section = Section(
        name=name,
        seconds=round(time.monotonic() - began_s, 1),
        others_share=round(neighbours.share(), 3),
        figures=figures,
        is_whole=failure is None and not options.parts,
    )
    print(
        f"  {name} took {section.seconds:.0f} s; others took {section.others_share:.0%} of the machine",
        flush=True,
    )
    return section, failure


def describe_state(arguments: list[str], options: Options) -> Mapping[str, Any]:
    """Return the state of a run: versions, machine and options."""
    return {
        "command": shlex.join(["./run.sh", "bench", *drop_paths(arguments)]),
        "is_quick": options.is_quick,
        "at": clock.format_ms(clock.now()),
        "commit": find_commit(),
        "python": platform.python_version(),
        "mitmproxy": version("mitmproxy"),
        "processors": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "peers": {
            peer.name: peer.failure or f"{peer.peer.title} {peer.version}" for peer in options.peers
        },
    }


def drop_paths(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments without options that name paths on this machine."""
    rest = iter(arguments)
    for word in rest:
        name, has_value, _ = word.partition("=")
        if name not in PATHS:
            yield word
        elif not has_value:
            next(rest, None)


def open_results(path: Path | None, state: Mapping[str, Any]) -> Results:
    """Return the results to continue: those in the file, empty ones without a file. Raises ValueError."""
    if path is None or not path.exists():
        return Results(state=state)
    try:
        return Results.read(path).continue_with(state)
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be continued: {error}. Name another file, or delete it."
        ) from error


def choose_sections(
    asked_for: Mapping[str, Sequence[str]] | None, results: Results
) -> Mapping[str, Sequence[str]]:
    """Return the sections to measure with their parts: those asked for, or all not yet in ``results``."""
    if asked_for is not None:
        return asked_for
    there = {section.name for section in results.sections if section.is_whole}
    return {name: [] for name in SECTIONS if name not in there}


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Return the parsed command-line arguments."""
    parser = argparse.ArgumentParser(prog="./run.sh bench", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer rounds and small databases: shows that all works, in some minutes",
    )
    parser.add_argument(
        "--only",
        metavar="NAMES",
        type=parse_names,
        help=f"sections, separated by commas: {', '.join(SECTIONS)}; or parts of them, as in cpu/2kb"
        " (default: those that the file of --json does not have)",
    )
    parser.add_argument("--rounds", type=int, help="instead of as many as each section has")
    parser.add_argument(
        "--calls",
        type=parse_calls,
        help=f"pages: how many calls there are; above {pages.MANY:,} copies of those, by millions"
        f" (default: {pages.MANY:,})",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the figures there too, after each section, beside those of the same commit that are there",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="compare with LiteLLM, Portkey's gateway, claude-tap and nginx; installs the first three",
    )
    parser.add_argument(
        "--peers-dir",
        type=Path,
        default=user_cache_path("taximeter") / "bench-peers",
        help="where they are installed, and stay (default: %(default)s)",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        help="where the data goes meanwhile; large databases stay there for the next run"
        " (default: the temporary directory)",
    )
    return parser.parse_args(arguments)


def parse_calls(text: str) -> int:
    """Return a number of calls. Raises ArgumentTypeError."""
    calls = int(text) if text.isascii() and text.isdigit() else 0
    if not calls or (calls > pages.MANY and calls % pages.MANY):
        raise argparse.ArgumentTypeError(f"must be a number, above {pages.MANY} whole millions")
    return calls


def parse_names(text: str) -> dict[str, list[str]]:
    """Return the parts to measure by section, empty for all parts. Raises ArgumentTypeError."""
    found: dict[str, list[str]] = {}
    for name in text.split(","):
        section, _, part = name.partition("/")
        if section not in SECTIONS:
            raise argparse.ArgumentTypeError(
                f"there is no {section}; sections are {', '.join(SECTIONS)}"
            )
        if part and part not in PARTS.get(section, ()):
            parts = ", ".join(PARTS.get(section, ())) or "none"
            raise argparse.ArgumentTypeError(f"there is no {name}; parts of {section}: {parts}")
        found.setdefault(section, []).extend([part] if part else [])
    return found


def main(arguments: list[str]) -> int:
    """Run the chosen sections, and return the exit status."""
    parsed = parse_arguments(arguments)
    if parsed.dir is not None:
        parsed.dir.mkdir(parents=True, exist_ok=True)
    peers = install_peers(parsed.peers_dir) if parsed.peers else []
    options = Options(
        is_quick=parsed.quick,
        parent=parsed.dir,
        peers=peers,
        rounds=parsed.rounds,
        calls=parsed.calls,
    )
    for peer in peers:
        print(f"  {peer.title}{f': {peer.failure}' if peer.failure else ''}", flush=True)
    try:
        results = open_results(parsed.json, describe_state(arguments, options))
    except ValueError as error:
        sys.exit(f"bench: {error}")
    failures = []
    for name, parts in choose_sections(parsed.only, results).items():
        section, failure = run_section(name, replace(options, parts=parts))
        results = results.with_section(section)
        if parsed.json is not None:
            results.write(parsed.json)
        if failure is not None:
            failures.append(failure)
    print(summarize(results.figures))
    for failure in failures:
        print(f"bench: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
