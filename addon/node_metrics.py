"""``/metrics`` of a node without pages: the figures of ``/healthz`` in the format of Prometheus.

Whoever may ask for one may ask for the other. The pages have more, and their names are the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.health import Gauge

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def render(document: Mapping[str, Any], gauges: Sequence[Gauge]) -> bytes:
    """Return the metrics in what ``/healthz`` says, and those of extensions."""
    return "".join(_make_lines(document, gauges)).encode()


def _make_lines(document: Mapping[str, Any], gauges: Sequence[Gauge]) -> Iterator[str]:
    yield (
        _declare("taximeter_healthy", "gauge")
        + f"taximeter_healthy {int(not document['reasons'])}\n"
    )
    yield _declare("taximeter_not_kept_total", "counter")
    for kind, count in document["not_kept"].items():
        yield f'taximeter_not_kept_total{{kind="{kind}"}} {count}\n'
    for name, _, value in gauges:
        yield _declare(name, "gauge") + f"{name} {value}\n"


def _declare(metric: str, kind: str) -> str:
    return f"# TYPE {metric} {kind}\n"
