"""The metrics of ``/metrics``: their names, labels and meanings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from manage.metrics.figures import Figures, Spool
from manage.metrics.processes import Process
from metering.limit_windows import WindowState
from metering.token_counts import TOKEN_CLASSES
from store.traces.sums.counters import CALL_SUMS, TIMES, Counters

_CALL_LABELS = ("endpoint", "model", "outcome")
_TIMES = {
    "ttfb_ms": ("taximeter_first_byte", "From the whole request to the first byte from upstream."),
    "duration_ms": ("taximeter_duration", "From the whole request to the last byte from upstream."),
    "proxy_overhead_ms": (
        "taximeter_proxy_overhead",
        "Time with the client less the time waiting for upstream.",
    ),
}


class _Scrape(Collector):
    """The collector of one scrape: it yields all metrics."""

    def __init__(self, figures: Figures, processes: Sequence[Process], version: str) -> None:
        self._figures = figures
        self._processes = processes
        self._version = version

    def collect(self) -> Iterator[Metric]:
        yield from _make_counters(self._figures.counters, self._figures.copy)
        yield from _make_attribution_counter(self._figures.counters, self._figures.copy)
        yield from _make_histograms(self._figures.counters, self._figures.copy)
        yield from _make_gauges(self._figures.spool)
        yield from _make_window_gauges(self._figures.windows)
        yield from self._make_service_gauges()
        yield from _make_refusal_counters(self._figures.refused)
        yield from self._figures.of_extensions
        yield from _make_process_metrics(self._processes)

    def _make_service_gauges(self) -> Iterator[Metric]:
        info = GaugeMetricFamily(
            "taximeter_build_info", "The version of the service; always 1.", labels=["version"]
        )
        info.add_metric([self._version], 1)
        yield info
        figures = self._figures
        if figures.recorder_is_up is not None:
            yield GaugeMetricFamily(
                "taximeter_recorder_up",
                "Whether the recorder runs: 1, or 0.",
                value=int(figures.recorder_is_up),
            )
        if figures.unreadable_databases is not None:
            yield GaugeMetricFamily(
                "taximeter_unreadable_databases",
                "Trace databases that could not be read, whose counters are missing here.",
                value=figures.unreadable_databases,
            )


def render(
    figures: Figures, processes: Sequence[Process], version: str, accept: str
) -> tuple[bytes, str]:
    """Return the metrics as text, in the format that the ``Accept`` header prefers, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(figures, processes, version))
    encode: Callable[[CollectorRegistry], bytes]
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _of_copy(copy: str | None) -> dict[str, str]:
    """Return the label that distinguishes metrics of this copy of the calls, none if there is one copy."""
    return {} if copy is None else {"copy": copy}


def _make_counters(counters: Counters, copy: str | None) -> Iterator[Metric]:
    of_copy = _of_copy(copy)
    labels = (*_CALL_LABELS, *of_copy)
    calls = CounterMetricFamily(
        "taximeter_calls", "Calls that have ended and are recorded.", labels=labels
    )
    tokens = CounterMetricFamily(
        "taximeter_tokens", "Tokens of these calls.", labels=(*labels, "kind")
    )
    cost = CounterMetricFamily(
        "taximeter_cost_dollars",
        "Cost of these calls by list price, as known when they were recorded.",
        labels=labels,
    )
    for call, values in sorted(counters.calls.items()):
        key = (*call, *of_copy.values())
        sums = dict(zip(CALL_SUMS, values, strict=True))
        calls.add_metric(key, sums["calls"])
        cost.add_metric(key, sums["cost_cents"] / 100)
        for each in TOKEN_CLASSES:
            tokens.add_metric((*key, each.label), sums[each.name])
    yield from (calls, tokens, cost)


def _make_attribution_counter(counters: Counters, copy: str | None) -> Iterator[Metric]:
    of_copy = _of_copy(copy)
    metric = CounterMetricFamily(
        "taximeter_attributes_left_out",
        "Users, projects and tags in headers of recorded calls that break a rule.",
        labels=["endpoint", *of_copy],
    )
    place, by_slug = CALL_SUMS.index("attributes_left_out"), Counter[str]()
    for call, values in counters.calls.items():
        by_slug[call.slug] += int(values[place])
    for slug, count in sorted(by_slug.items()):
        metric.add_metric([slug, *of_copy.values()], count)
    yield metric


def _make_histograms(counters: Counters, copy: str | None) -> Iterator[Metric]:
    of_copy = _of_copy(copy)
    found: dict[str, dict[str, dict[float, tuple[float, ...]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for key, sums in counters.times.items():
        found[key.measure][key.slug][key.up_to_s] = sums
    for measure, (name, help_text) in _TIMES.items():
        metric = HistogramMetricFamily(f"{name}_seconds", help_text, labels=["endpoint", *of_copy])
        for slug, buckets in sorted(found[measure].items()):
            # Stored bounds that are none any more stay, so that the sums are right.
            bounds = sorted({*TIMES[measure], *buckets})
            counts = accumulate(buckets.get(bound, (0,))[0] for bound in bounds)
            metric.add_metric(
                [slug, *of_copy.values()],
                [
                    (_format_bound(bound), count)
                    for bound, count in zip(bounds, counts, strict=True)
                ],
                sum(seconds for _, seconds in buckets.values()),
            )
        yield metric


def _format_bound(bound: float) -> str:
    return "+Inf" if bound == inf else str(float(bound))


def _make_gauges(spool: Spool) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "taximeter_in_flight", "Calls that have not ended.", value=spool.in_flight
    )
    yield GaugeMetricFamily(
        "taximeter_spool_files", "Calls that have ended and wait to be recorded.", value=spool.files
    )
    yield GaugeMetricFamily(
        "taximeter_spool_age_seconds", "How long the oldest of them has waited.", value=spool.age_s
    )


def _make_window_gauges(windows: Iterable[WindowState]) -> Iterator[Metric]:
    """Yield the gauges of subscription windows. A window that has been reset since has only the time of
    its reading."""
    labels = ("account", "window")
    used, resets, ends, read = (
        GaugeMetricFamily(f"taximeter_limit_{name}", help_text, labels=labels)
        for name, help_text in (
            ("used_ratio", "The share of a subscription's window that is used, 1 for all of it."),
            ("reset_timestamp_seconds", "When the window is reset."),
            ("used_up_timestamp_seconds", "When it is used up at the pace of late, if before."),
            ("read_timestamp_seconds", "When the upstream stated the share last."),
        )
    )
    for each in sorted(windows, key=lambda each: (each.account, each.window)):
        key = (each.account, each.window)
        read.add_metric(key, each.read_at.timestamp())
        if each.left is None:
            continue
        used.add_metric(key, each.used)
        if each.resets_at is not None:
            resets.add_metric(key, each.resets_at.timestamp())
        if each.used_up_at is not None:
            ends.add_metric(key, each.used_up_at.timestamp())
    yield from (used, resets, ends, read)


def _make_refusal_counters(refused: Mapping[str, int]) -> Iterator[Metric]:
    if refused:
        metric = CounterMetricFamily(
            "taximeter_refused",
            "Connections above the limit of their client, and request heads too large or too slow.",
            labels=["reason"],
        )
        for reason, count in refused.items():
            metric.add_metric([reason], count)
        yield metric


def _make_process_metrics(processes: Iterable[Process]) -> Iterator[Metric]:
    cpu = CounterMetricFamily(
        "taximeter_process_cpu_seconds", "Processor time of a process.", labels=["process"]
    )
    memory = GaugeMetricFamily(
        "taximeter_process_resident_memory_bytes", "Memory of a process.", labels=["process"]
    )
    descriptors = GaugeMetricFamily(
        "taximeter_process_open_fds", "Open files and sockets of a process.", labels=["process"]
    )
    for process in processes:
        cpu.add_metric([process.name], process.cpu_s)
        memory.add_metric([process.name], process.resident_bytes)
        descriptors.add_metric([process.name], process.descriptors)
    yield from (cpu, memory, descriptors)
