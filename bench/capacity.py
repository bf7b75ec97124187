"""The size of a cluster for a number of calls a second, computed from the costs of a call.

``python -m bench.capacity FILE`` stores the section ``cluster`` of a run as ``capacity.json`` in the
folder of the extension, and renews the tables in its README that are made from it. ``./run.sh check``
compares them."""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench import documents
from bench.cluster import CASES, Case
from bench.figures import Results, format_number
from bench.load import REPOSITORY
from bench.nodes import CLUSTER_PARTS

DOCUMENT = REPOSITORY / "extensions" / "cluster" / "README.md"
RESULTS = DOCUMENT.with_name("capacity.json")
RATES = (10, 100, 1_000, 100_000)
LOAD = 0.6  # of a processor, so that there is room for peaks
NODE_PROCESSORS = 4
BACKLOG_S, DAY_S = 60, 86_400
BUSY_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of a call of one kind: milliseconds of CPU in each part, and kilobytes."""

    title: str
    alone_proxy: float
    alone_recorder: float
    parts: Mapping[str, float]
    memory: float
    received: float
    stored: float

    @classmethod
    def read(cls, results: Results, case: Case) -> Self | None:
        """Return the costs that a run has measured, or None if it did not measure them."""
        rows = {each.row: each.value for each in results.figures}
        names = ("alone/proxy", "alone/recorder", *CLUSTER_PARTS, "memory", "received", "stored")
        values = {name: rows.get(f"cluster/{case.name}/{name}") for name in names}
        found = {name: value for name, value in values.items() if value is not None}
        if len(found) < len(names):
            return None
        return cls(
            title=case.title,
            alone_proxy=found["alone/proxy"],
            alone_recorder=found["alone/recorder"],
            parts={part: found[part] for part in CLUSTER_PARTS},
            memory=found["memory"],
            received=found["received"],
            stored=found["stored"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The needs of a cluster with one copy at a rate of calls: machines, MB, MB a second, GB a day."""

    proxy_nodes: int
    redis_processors: float
    redis_memory_mb: float
    redis_mb_s: float
    recorder_nodes: int
    disk_gb: float


def compute_need(costs: Costs, rate: float) -> Need:
    """Return the needs of a cluster for ``rate`` calls a second.

    A Redis server, a receiver and a recorder have one processor each; at least two nodes forward
    calls, so that one may fail."""
    parts = costs.parts
    forwarding = _count_processors(parts["proxy"] + parts["shipper"], rate)
    recording = _count_processors(max(parts["receiver"], parts["recorder"]), rate)
    return Need(
        proxy_nodes=max(2, math.ceil(forwarding / NODE_PROCESSORS)),
        redis_processors=_count_processors(parts["redis"], rate),
        redis_memory_mb=costs.memory * rate * BACKLOG_S / 1000,
        redis_mb_s=costs.received * rate / 1000,
        recorder_nodes=math.ceil(recording),
        disk_gb=costs.stored * rate * DAY_S / 1e6,
    )


def compute_alone(costs: Costs, processors: int) -> float:
    """Return the calls a second that one machine forwards and records, with one recorder process."""
    all_of_it = processors * 1000 * LOAD / (costs.alone_proxy + costs.alone_recorder)
    return min(all_of_it, 1000 * LOAD / costs.alone_recorder)


def _count_processors(cost_ms: float, rate: float) -> float:
    return cost_ms * rate / 1000 / LOAD


def render_alone() -> str:
    """Return the Markdown table of calls per second that one machine handles."""
    results = read_results()
    lines = [
        "",
        "| one machine, calls a second | 2 processors, 1 worker, with load and upstream | 2 processors | 4 | 8 or more |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in CASES:
        costs, measured = (
            Costs.read(results, case),
            results.find(f"cluster/{case.name}/alone/rate"),
        )
        if costs is None or measured is None:
            continue
        computed = [f"{compute_alone(costs, count):,.0f} computed" for count in (2, 4, 8)]
        cells = [f"{case.title}s", f"{measured.value or 0:,.0f} measured", *computed]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", ""])


def render_costs() -> str:
    """Return the Markdown table of the measured costs of a call in each part, with the machine of the run."""
    results = read_results()
    found = [costs for case in CASES if (costs := Costs.read(results, case))]
    rows: list[tuple[str, list[str]]] = [
        (f"CPU of {name}", [f"{each.parts[part]:.2f} ms" for each in found])
        for part, name in (
            ("proxy", "the proxy, which asks Redis for the limit"),
            ("shipper", "the shipper"),
            ("redis", "Redis"),
            ("receiver", "the receiver of a copy"),
            ("recorder", "the recorder of a copy"),
        )
    ]
    rows += [
        (
            "beside it, one machine: proxy + recorder",
            [f"{each.alone_proxy:.2f} + {each.alone_recorder:.2f} ms" for each in found],
        ),
        ("an entry on its way to Redis", [f"{each.received:.1f} KB" for each in found]),
        ("an entry in the memory of Redis", [f"{each.memory:.1f} KB" for each in found]),
        ("stored by a copy", [f"{each.stored:.1f} KB" for each in found]),
    ]
    table = _draw_table("measured", [each.title for each in found], rows)
    return "\n".join(["", _describe(results), "", *table, "", *_render_others(results), ""])


def render_needs() -> str:
    """Return the Markdown tables of needs by rate, one for each kind of calls."""
    results = read_results()
    lines: list[str] = []
    for case in CASES:
        costs = Costs.read(results, case)
        if costs is not None:
            titles = [f"{rate:,} a second" for rate in RATES]
            lines += _draw_table(f"{case.title}s, computed", titles, list(_make_rows(costs)))
            lines.append("")
    return "\n".join(["", *lines, ""])


def _make_rows(costs: Costs) -> Iterator[tuple[str, list[str]]]:
    needs = [compute_need(costs, rate) for rate in RATES]
    yield (
        f"proxy nodes of {NODE_PROCESSORS} processors",
        [f"{each.proxy_nodes:,}" for each in needs],
    )
    yield (
        "processors of Redis; one server has 1",
        [format_number(each.redis_processors) for each in needs],
    )
    yield (
        "memory of Redis for a minute without a recorder",
        [_format_bytes(each.redis_memory_mb) for each in needs],
    )
    yield (
        "to Redis, and from it for each copy and replica",
        [f"{_format_bytes(each.redis_mb_s)}/s" for each in needs],
    )
    yield (
        "recorder nodes of each copy, of 2 processors",
        [f"{each.recorder_nodes:,}" for each in needs],
    )
    yield "disk of each copy a day", [_format_bytes(each.disk_gb * 1000) for each in needs]


def _format_bytes(megabytes: float) -> str:
    for unit in ("MB", "GB", "TB"):
        if megabytes < 1000 or unit == "TB":
            break
        megabytes /= 1000
    return f"{format_number(megabytes)} {unit}"


def _draw_table(head: str, titles: list[str], rows: list[tuple[str, list[str]]]) -> Iterator[str]:
    yield f"| {head} | {' | '.join(titles)} |"
    yield f"| --- |{' --- |' * len(titles)}"
    for name, cells in rows:
        yield f"| {name} | {' | '.join(cells)} |"


def _render_others(results: Results) -> Iterator[str]:
    """Yield a line of Markdown for each other figure of the run."""
    wanted = ("/drain", "/lag/p50", "/lag/p99", "/rate/1", "/rate/3", "2kb/idle")
    for figure in results.figures:
        if figure.row.endswith(wanted):
            note = f" ({figure.note})" if figure.note else ""
            yield f"- {figure.title}: {figure.format_value()}{note}"


def _describe(results: Results) -> str:
    state, (section,) = results.state, results.sections
    is_busy = section.others_share > BUSY_SHARE
    return (
        f"Measured on {str(state['at'])[:10]} at commit `{state['commit']}` by `{state['command']}`,"
        f" {state['system']}, {state['processors']} processors, all parts on this one machine, of which"
        f" other programs took {section.others_share:.0%}"
        + ", so rates and times are worse than they would be" * is_busy
        + ":"
    )


def read_results() -> Results:
    """Return the stored run. Raises OSError, ValueError."""
    return Results.read(RESULTS)


def keep(results: Results) -> bool:
    """Store the section ``cluster`` of a run and renew the document; return False if the run lacks it."""
    sections = [section for section in results.sections if section.name == "cluster"]
    if not sections or all(figure.value is None for figure in sections[0].figures):
        return False
    Results(state=results.state, sections=sections).write(RESULTS)
    documents.renew(DOCUMENT)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=__doc__)
    parser.add_argument("file", type=Path, help="what ./run.sh bench --json FILE has written")
    try:
        if not keep(Results.read(parser.parse_args().file)):
            sys.exit("bench.capacity: this run has no figures of a cluster")
    except (OSError, ValueError) as error:
        sys.exit(f"bench.capacity: {error}")


if __name__ == "__main__":
    main()
