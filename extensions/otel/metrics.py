"""The metrics of exports to collectors."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, Metric

from extensions.otel import FILE
from store.following.positions import read_totals

logger = logging.getLogger(__name__)


def make_metrics(data_dir: Path) -> Iterator[Metric]:
    """Yield the counters of calls that each collector has received, and of those it will not receive."""
    exported = CounterMetricFamily(
        "taximeter_otel_exported", "Calls that a collector has acknowledged.", labels=["collector"]
    )
    dropped = CounterMetricFamily(
        "taximeter_otel_dropped", "Calls that a collector will not get.", labels=["collector"]
    )
    try:
        for each in read_totals(data_dir / FILE):
            exported.add_metric([each.receiver], each.exported)
            dropped.add_metric([each.receiver], each.dropped)
    except sqlite3.Error as error:  # a gap in these figures is better than none at all
        logger.warning("/metrics lacks the figures of exports: %s", error)
    yield from (exported, dropped)
