"""Reading the figures of ``/metrics``, of one organisation or of all."""

import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from metering.limit_windows import WindowState
from runtime import clock, extensions
from runtime.heartbeat import Heartbeat
from runtime.node import Node
from runtime.trouble_log import TroubleLog
from runtime.worker_board import Shared, read_total
from store.spool import reader
from store.spool.format import REJECTIONS
from store.spool.reader import Waiting
from store.traces.calls.limit_readings import read_states_of
from store.traces.paths import find_trace_files, trace_path
from store.traces.sums.counters import CallKey, Counters, TimeKey, read_counters

logger = logging.getLogger(__name__)

MAX_ACCOUNTS = 20  # of an organisation
MAX_AGES = 1000  # of the files that wait: the oldest arrivals
REFUSALS = {
    "connections": Shared.CONNECTIONS_REFUSED,
    "large_head": Shared.LARGE_HEADS_REFUSED,
    "slow_head": Shared.SLOW_HEADS_REFUSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """The number of calls in flight and of files that wait for the recorder.

    ``age_s`` is the time that the oldest file has waited."""

    in_flight: int
    files: int
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a scrape.

    ``recorder_is_up`` and ``unreadable_databases`` are None for a reader who may not see them.
    ``refused`` counts requests that the proxy refused before reading them, by reason. ``copy`` is the
    copy of all calls that the counters are from, None if there is only one."""

    counters: Counters
    spool: Spool
    recorder_is_up: bool | None = None
    unreadable_databases: int | None = None
    refused: Mapping[str, int] = field(default_factory=dict)
    copy: str | None = None
    windows: Sequence[WindowState] = ()
    of_extensions: Sequence[Metric] = ()


@dataclass(slots=True)
class FigureReader:
    """Reads figures from disk. It blocks, so use it in a thread.

    ``proxy_spool_path`` is the folder of calls in flight, ``spool_path`` that of calls that wait for
    the recorder, and ``board_fd`` the shared board of the proxy's workers."""

    data_dir: Path
    proxy_spool_path: Path
    spool_path: Path
    board_fd: int | None = None
    node: Node = field(default_factory=Node)
    _trouble: TroubleLog = field(
        default_factory=lambda: TroubleLog(logger, "/metrics lacks a trace database: %s")
    )

    def read_organization(self, organization_id: str) -> Figures:
        """Return the figures of one organisation. Raises sqlite3.Error."""
        path = trace_path(self.data_dir, organization_id)
        counters = read_counters(path) if path.exists() else Counters({}, {})
        return Figures(
            counters=counters,
            spool=self._read_spool(organization_id),
            windows=_bound(read_states_of(path, clock.now())),
            copy=self.node.copy,
        )

    def read_all(self) -> Figures:
        """Return the figures of all organisations. A database that cannot be read is left out.

        Its counters are left out too. No other database has the same slugs, so no other counter
        becomes smaller."""
        call_sums: dict[CallKey, tuple[float, ...]] = {}
        time_sums: dict[TimeKey, tuple[float, ...]] = {}
        windows: list[WindowState] = []
        unreadable, now = 0, clock.now()
        for path in find_trace_files(self.data_dir):
            try:
                counters = read_counters(path)
                windows += _bound(read_states_of(path, now))
            except sqlite3.Error as error:
                self._trouble.report(f"{path.parent.name}: {error}")
                unreadable += 1
                continue
            _merge(call_sums, counters.calls)
            _merge(time_sums, counters.times)
        if not unreadable:
            self._trouble.clear()
        heartbeat = Heartbeat.read(self.data_dir)
        return Figures(
            counters=Counters(call_sums, time_sums),
            spool=self._read_spool(None),
            recorder_is_up=heartbeat is not None and heartbeat.is_fresh,
            unreadable_databases=unreadable,
            refused=self._read_refused(),
            copy=self.node.copy,
            windows=windows,
            of_extensions=list(self._read_extensions()),
        )

    def _read_extensions(self) -> Iterator[Metric]:
        hooks = extensions.call()
        for health in hooks.health(node=self.node, data_dir=self.data_dir):
            for name, help_text, value in health.gauges:
                yield GaugeMetricFamily(name, help_text, value=value)
        for found in hooks.metrics(data_dir=self.data_dir):
            yield from found

    def _read_refused(self) -> dict[str, int]:
        if self.board_fd is None:
            return {}
        return {reason: read_total(self.board_fd, each) for reason, each in REFUSALS.items()}

    def _read_spool(self, organization_id: str | None) -> Spool:
        in_flight = _of(organization_id, reader.find_in_flight(self.proxy_spool_path))
        waiting = _of(organization_id, reader.find_waiting(self.spool_path))
        return Spool(in_flight=len(in_flight), files=len(waiting), age_s=_find_age_s(waiting))


def _bound(windows: Sequence[WindowState]) -> list[WindowState]:
    """Return the windows of the most recently used accounts, a bounded number of them."""
    accounts = list(dict.fromkeys(each.account for each in windows))[:MAX_ACCOUNTS]
    return [each for each in windows if each.account in accounts]


def _of(organization_id: str | None, files: Iterable[Waiting]) -> list[Waiting]:
    if organization_id is None:
        return [file for file in files if file.owner != REJECTIONS]
    return [file for file in files if file.owner == organization_id]


def _find_age_s(waiting: list[Waiting]) -> float:
    """Return the seconds since the last byte of the file that has waited longest, 0 if none waits."""
    written_s = []
    for file in waiting[:MAX_AGES]:
        with suppress(OSError):  # it is recorded meanwhile
            written_s.append(os.stat(file.file).st_mtime)  # noqa: PTH116 - see Waiting
    return max(0.0, time.time() - min(written_s)) if written_s else 0.0


def _merge[K](sums: dict[K, tuple[float, ...]], added: Mapping[K, tuple[float, ...]]) -> None:
    for key, values in added.items():
        ours = sums.get(key)
        sums[key] = values if ours is None else tuple(map(sum, zip(ours, values, strict=True)))
