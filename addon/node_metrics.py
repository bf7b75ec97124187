"""``/metrics`` of a node without pages: the figures of ``/healthz`` in the format of Prometheus.

Whoever may ask for one may ask for the other. The pages have more, and their names are the same.
"""

from collections.abc import Iterator, Mapping
from typing import Any

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def render(document: Mapping[str, Any]) -> bytes:
    """Return the metrics in what ``/healthz`` says."""
    return "".join(_make_lines(document)).encode()


def _make_lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield (
        _declare("taximeter_healthy", "gauge")
        + f"taximeter_healthy {int(not document['reasons'])}\n"
    )
    yield _declare("taximeter_not_kept_total", "counter")
    for kind, count in document["not_kept"].items():
        yield f'taximeter_not_kept_total{{kind="{kind}"}} {count}\n'
    if cluster := document.get("cluster"):
        for metric, value in (
            ("taximeter_cluster_failing_parts", len(cluster["failing"])),
            ("taximeter_cluster_unshipped_files", cluster["unshipped"]),
            ("taximeter_in_flight", cluster["in_flight"]),
        ):
            if value is not None:
                yield _declare(metric, "gauge") + f"{metric} {value}\n"


def _declare(metric: str, kind: str) -> str:
    return f"# TYPE {metric} {kind}\n"
