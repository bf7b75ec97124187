"""``python -m bench.report FILE``: publishes the figures of a run in the documentation.

Copies the run to ``docs/performance.json``, and makes from it the plots in ``docs/performance`` and
the tables in ``docs/performance.md``, and through ``bench.capacity`` those in
``extensions/cluster/README.md``. ``./run.sh check`` compares them with the JSON."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from bench import capacity, documents
from bench.charts import Bar, draw_bars
from bench.figures import Figure, Results
from bench.load import REPOSITORY

DOCS = REPOSITORY / "docs"
RESULTS = DOCS / "performance.json"
PLOTS_FOLDER = DOCS / "performance"
# The rows of the short table at the top, with what they are called there; None: as in the run.
SUMMARY: Mapping[str, str | None] = {
    "cpu/2kb/proxy": "CPU of the proxy for a logged 2 KB call; a bare `mitmdump`, which logs nothing, is 1",
    "cpu/2kb/proxy+recorder": "the same with the recorder",
    "cpu/300kb/proxy+recorder": "CPU of both for a logged 300 KB call",
    "cpu/2kb/peer/litellm": "CPU of LiteLLM's pass-through for a 2 KB call, its log off; Taximeter is 1",
    "cpu/2kb/peer/portkey": "CPU of Portkey's gateway; Taximeter is 1",
    "streams/first-event/p50": "added to the first event of a stream, median",
    "streams/visible/busy": "entry visible after the response, p99, beside 200 calls a second",
    "storage/call": None,
    "pages/home": None,
    "pages/search/two common words": None,
    "kills/lost": "entries lost by `kill -9` of every process under load",
    "kills/doubled": "entries twice",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot of the rows whose names begin with ``rows``, with the ends of their titles as labels.

    ``ours`` names Taximeter's rows among others. ``base`` is the label of a bar of 1 for comparison."""

    file: str
    title: str
    rows: str
    ours: Sequence[str] = ()
    base: str | None = None
    limit: int = 16


PLOTS = (
    Plot(
        file="cpu-2kb.svg",
        title="CPU of a 2 KB call, bare mitmdump = 1",
        rows="cpu/2kb/of-bare/",
        ours=("cpu/2kb/proxy", "cpu/2kb/proxy+recorder"),
        base="bare mitmdump, logs nothing",
    ),
    Plot(
        file="cpu-300kb.svg",
        title="CPU of a 300 KB call, bare mitmdump = 1",
        rows="cpu/300kb/of-bare/",
        ours=("cpu/300kb/proxy", "cpu/300kb/proxy+recorder"),
        base="bare mitmdump, logs nothing",
    ),
    Plot(
        file="first-event.svg",
        title="Added to the first event of a stream, median",
        rows="streams/first-event/p50/peer/",
        ours=("streams/first-event/p50",),
    ),
    Plot(file="pages.svg", title="Pages with many calls, median", rows="pages/", limit=24),
)


def render_targets() -> str:
    """Return a Markdown table for each section, with the rows that have a target, and those of peers."""
    results = Results.read(RESULTS)
    parts = [""]
    for section in results.sections:
        rows = [each for each in section.figures if each.target is not None or "/peer/" in each.row]
        if not rows:
            continue
        parts += [
            f"**`{section.name}`**, {section.seconds:.0f} s, while others took"
            f" {section.others_share:.0%} of the machine:",
            "",
            "| | measured | range | target | | |",
            "| --- | --- | --- | --- | --- | --- |",
            *map(_render_row, rows),
            "",
        ]
    return "\n".join([*parts, ""])


def _render_row(figure: Figure) -> str:
    cells = (
        figure.title,
        figure.format_value(),
        figure.format_range().replace("..", "to"),
        _compare(figure.format_target()),
        figure.verdict,
        figure.note,
    )
    return f"| {' | '.join(map(_escape, cells))} |"


def _escape(text: str) -> str:
    """Return text escaped for a Markdown table."""
    return escape(text, quote=False).replace("|", "&#124;").replace("`", "'")


def _compare(target: str) -> str:
    return target.replace("<=", "≤").replace(">=", "≥")


def render_plots() -> str:
    """Return the Markdown of the plots for which the run has figures."""
    titles = {plot.file: plot.title for plot in PLOTS}
    drawn = draw_plots(Results.read(RESULTS))
    pictures = [f"![{titles[name]}]({PLOTS_FOLDER.name}/{name})\n" for name, _ in drawn]
    return "\n".join(["", *pictures, ""])


def render_state() -> str:
    """Return a sentence on the versions and the machine of the run."""
    state = Results.read(RESULTS).state
    peers = ", ".join(str(each) for each in state["peers"].values()) or "without other programs"
    return (
        f"\n{_warn(state)}Measured on {str(state['at'])[:10]} at commit `{state['commit']}` by"
        f" `{state['command']}`: {state['system']}, {state['processors']} processors,"
        f" {state['memory_gb']} GB, CPython {state['python']}, mitmproxy {state['mitmproxy']}; {peers}.\n\n"
    )


def _warn(state: Mapping[str, Any]) -> str:
    """Return a warning if a run was a quick one, otherwise empty text."""
    if not state["is_quick"]:
        return ""
    return "**These figures are of a quick run, and not to rely on.** "


def render_summary() -> str:
    """Return the short Markdown table at the top of the document."""
    results = Results.read(RESULTS)
    found = [(results.find(row), title) for row, title in SUMMARY.items()]
    rows = [
        f"| {title or each.title} | {each.format_value()} | {_compare(each.format_target())} |"
        for each, title in found
        if each is not None and each.value is not None
    ]
    head = [_warn(results.state), "", "| | measured | target |", "| --- | --- | --- |"]
    return "\n".join(["", *head, *rows, "", ""])


def draw_plots(results: Results) -> Iterator[tuple[str, str]]:
    """Yield (file name, SVG) of each plot."""
    for plot in PLOTS:
        bars = list(_make_bars(plot, results))
        if bars:
            yield plot.file, draw_bars(plot.title, bars)


def _make_bars(plot: Plot, results: Results) -> Iterator[Bar]:
    ours = [results.find(row) for row in plot.ours]
    others = [each for each in results.figures if each.row.startswith(plot.rows)]
    if not plot.ours:
        others = [each for each in others if each.target is not None][: plot.limit]
    for figure in (*ours, *others):
        if figure is None or figure.value is None:
            continue
        yield Bar(
            name=_name(figure, figure in ours),
            value=figure.value,
            unit=figure.unit,
            target=figure.target,
            is_ours=figure in ours or not plot.ours,
        )
    if plot.base is not None and any(ours):
        yield Bar(name=plot.base, value=1.0)


def _name(figure: Figure, is_ours: bool) -> str:
    """Return the label of a row in a plot with rows of other programs."""
    last = figure.row.rpartition("/")[2]
    if is_ours:
        return "Taximeter" if last.startswith("p") and last[1:].isdigit() else f"Taximeter: {last}"
    if figure.row.startswith("pages/"):
        return re.sub(r"^[\d,]+ calls: ", "", figure.title)
    return figure.title.rpartition(": ")[2].removesuffix(" / bare mitmdump")


def write(results: Results) -> None:
    """Write the JSON, the plots and the tables of the documentation."""
    results.write(RESULTS)
    PLOTS_FOLDER.mkdir(exist_ok=True)
    for old in PLOTS_FOLDER.glob("*.svg"):
        old.unlink()
    for name, document in draw_plots(results):
        (PLOTS_FOLDER / name).write_text(document)
    capacity.keep(results)
    documents.renew(DOCS / "performance.md")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("file", type=Path, help="what ./run.sh bench --json FILE has written")
    arguments = parser.parse_args()
    try:
        write(Results.read(arguments.file))
    except (OSError, ValueError) as error:
        sys.exit(f"bench.report: {error}")


if __name__ == "__main__":
    main()
