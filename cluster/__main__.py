"""``python -m cluster``: the work of a node for its cluster, each part in a thread.

A thread that fails, because the server is away or the disk is full, says so once, and tries again after
growing pauses. Meanwhile calls wait in the spool, and slugs are what they were.
"""

import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import redis

from cluster import server
from cluster.directory import Follower, Publisher
from cluster.log import BUCKETS
from cluster.receiver import Receiver
from cluster.shipper import Shipper
from runtime import logs, parent_watch, readiness
from runtime.heartbeat import Heartbeat
from runtime.settings import Settings, SettingsError
from runtime.trouble_log import TroubleLog
from store import database
from store.control.database import ControlDatabase
from store.spool import reader

logger = logging.getLogger(__name__)

SHIP_S, DIRECTORY_S, TRIM_S, BEAT_S = 0.05, 0.2, 1.0, 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 2.0


@dataclass(frozen=True, slots=True)
class Work:
    """A thing to do again and again: ``run`` returns after how many seconds it is to be done next."""

    name: str
    run: Callable[[], float]


class Node:
    """The work of one node, by its roles."""

    def __init__(self, settings: Settings) -> None:
        if settings.cluster is None:
            raise SettingsError("TAXIMETER_CLUSTER is not set")
        self._settings = settings
        self._url = settings.cluster
        self._stop = threading.Event()
        self._waiting = 0

    def stop(self, *_: object) -> None:
        self._stop.set()

    def run(self) -> None:
        threads = [
            threading.Thread(target=self._repeat, args=(work,), name=work.name)
            for work in self._find_work()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _find_work(self) -> Iterator[Work]:
        roles = self._settings.role
        if "proxy" in roles:
            yield Work("shipper", self._begin_shipping())
        if "recorder" in roles:
            yield Work("receiver", self._begin_receiving())
        if "web" in roles:
            yield Work("publisher", self._begin_publishing())
        elif "proxy" in roles:
            yield Work("follower", self._begin_following())

    def _repeat(self, work: Work) -> None:
        trouble = TroubleLog(logger, f"THE CLUSTER IS IMPAIRED, {work.name}: %s")
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                next_s = work.run()
            except (redis.RedisError, sqlite3.Error, OSError) as error:
                trouble.report(f"{error}")
                next_s = pause_s
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                trouble.clear()
                pause_s = FIRST_PAUSE_S
            self._stop.wait(next_s)

    def _begin_shipping(self) -> Callable[[], float]:
        client = server.connect(self._url)
        shipper = Shipper(self._settings.proxy_spool_path, client, time.monotonic)
        beat_at_s = 0.0

        def run() -> float:
            nonlocal beat_at_s
            waiting = sum(1 for _ in reader.find_waiting(self._settings.proxy_spool_path))
            if "recorder" not in self._settings.role and time.monotonic() >= beat_at_s:
                beat_at_s = time.monotonic() + BEAT_S
                self._write_beat(waiting)
            try:
                shipped, left = shipper.run_round()
            except redis.RedisError:
                shipper.disconnect()
                raise
            return 0.0 if left and shipped else SHIP_S

        return run

    def _write_beat(self, waiting: int) -> None:
        """Say that this process lives, where a recorder would."""
        unreadable = reader.count_unreadable(self._settings.proxy_spool_path)
        Heartbeat(
            pid=os.getpid(), beat_s=time.monotonic(), waiting=waiting, unreadable=unreadable
        ).write(self._settings.data_dir)

    def _begin_receiving(self) -> Callable[[], float]:
        receiver = Receiver(
            self._settings.spool_path,
            server.connect(self._url),
            self._settings.group,
            range(BUCKETS),
        )
        trim_at_s = 0.0

        def run() -> float:
            nonlocal trim_at_s
            received = receiver.run_round()
            if time.monotonic() >= trim_at_s:
                receiver.trim()
                trim_at_s = time.monotonic() + TRIM_S
            return 0.0 if received else 0.01

        return run

    def _begin_publishing(self) -> Callable[[], float]:
        control = database.open_readonly(
            self._settings.control_path, busy_timeout_s=1.0, any_thread=True
        )
        publisher = Publisher(control, server.connect(self._url))

        def run() -> float:
            publisher.run_round()
            return DIRECTORY_S

        return run

    def _begin_following(self) -> Callable[[], float]:
        follower = Follower(
            ControlDatabase(self._settings.control_path, any_thread=True), server.connect(self._url)
        )

        def run() -> float:
            follower.run_round()
            return DIRECTORY_S

        return run


def main() -> None:
    logs.configure("cluster")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        node = Node(Settings.from_env())
    except (SettingsError, ValueError) as error:
        sys.exit(f"taximeter: {error}")
    signal.signal(signal.SIGTERM, node.stop)
    parent_watch.watch(node.stop)
    readiness.announce()
    node.run()


if __name__ == "__main__":
    main()
