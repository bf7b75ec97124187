"""``python -m extensions.cluster``: the work of a node for its cluster, each part in a thread.

A thread that fails, because the server is away or the disk is full, logs it once, and tries again
after growing pauses. Meanwhile calls wait in the spool, and the known slugs stay in use. A thread that
fails unexpectedly ends the process, which is then restarted."""

import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial

import redis

from extensions.cluster import server
from extensions.cluster.budgets import BudgetFollower, BudgetPublisher, BudgetReporter
from extensions.cluster.copies import Copy, load_node
from extensions.cluster.directory import Follower, Publisher
from extensions.cluster.erasures import OrderFollower, OrderKeeper, OrderReporter
from extensions.cluster.log import BUCKETS
from extensions.cluster.moving.giving import Giver
from extensions.cluster.moving.mover import Mover
from extensions.cluster.moving.taking import Taker
from extensions.cluster.page_nodes import PageNodesFile
from extensions.cluster.receiver import Receiver
from extensions.cluster.settings import CLUSTER, GROUP
from extensions.cluster.shipper import Shipper
from extensions.cluster.state import ClusterState
from extensions.cluster.statement_key import KeyFollower, KeyPublisher
from extensions.cluster.whereabouts import Whereabouts, count_unserved, find_address
from runtime import logs, parent_watch, readiness
from runtime.heartbeat import Heartbeat
from runtime.settings import Settings, SettingsError
from runtime.trouble_log import TroubleLog
from store import database
from store.budget_file import BudgetFile
from store.control.database import ControlDatabase
from store.spool import reader

logger = logging.getLogger(__name__)

SHIP_S, DIRECTORY_S, BUDGETS_S, ERASURES_S, KEYS_S = 0.05, 0.2, 0.3, 1.0, 1.0
TRIM_S, BEAT_S, LOOK_S, MOVES_S, MOVING_S = 1.0, 1.0, 1.0, 1.0, 0.01
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 2.0
LAST_SHIPPING_S = 2.0  # the supervisor gives this process three


@dataclass(frozen=True, slots=True)
class Work:
    """Work to be repeated: ``run`` returns the seconds until it is to be called again.

    ``finish`` is called once at the end of the process."""

    name: str
    run: Callable[[], float]
    finish: Callable[[], object] = lambda: None


def _repeat_every(pause_s: float, *rounds: Callable[[], object]) -> Callable[[], float]:
    """Return a function that runs ``rounds`` one after the other and returns ``pause_s``."""

    def run() -> float:
        for run_round in rounds:
            run_round()
        return pause_s

    return run


class Node:
    """The work of one node, depending on its roles."""

    def __init__(self, settings: Settings) -> None:
        url = settings.of(CLUSTER)
        if url is None:
            raise SettingsError("TAXIMETER_CLUSTER is not set")
        self._settings = settings
        self._url = url
        self._stop = threading.Event()
        self._has_failed = False
        self._failing: dict[str, str] = {}
        self._unshipped: int | None = None
        self._lag: int | None = None
        self._unserved = 0
        self._level_s: float | None = None
        self._copy: Copy | None = None
        self._reporter: OrderReporter | None = None
        self._opened = ExitStack()

    def stop(self, *_: object) -> None:
        self._stop.set()

    def run(self) -> bool:
        """Work until stopped; return False if a thread failed unexpectedly."""
        threads = [
            threading.Thread(target=self._keep_repeating, args=(work,), name=work.name)
            for work in self._find_work()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._leave()
        self.close()
        return not self._has_failed

    def close(self) -> None:
        """Close the node's connections to the server and its databases."""
        self._opened.close()

    def _connect(self) -> server.Client:
        """Return a client of the server that is closed with the node."""
        client = server.connect(self._url)
        self._opened.callback(server.close, client)
        return client

    def _open_control(self, *, checks_references: bool = True) -> ControlDatabase:
        """Open ``control.db`` for a thread, to be closed with the node."""
        return self._opened.enter_context(
            ControlDatabase(
                self._settings.control_path, any_thread=True, checks_references=checks_references
            )
        )

    def _find_work(self) -> Iterator[Work]:
        roles = self._settings.node.parts
        yield Work("beat", self._beat)
        if "proxy" in roles:
            yield self._begin_shipping()
        if "recorder" in roles:
            receiver, copy = self._make_receiver()
            yield Work("receiver", self._begin_receiving(receiver))
            yield self._begin_moving(receiver, copy)
        if "web" in roles:
            yield Work("publisher", self._begin_publishing())
            yield Work("list of nodes", self._begin_looking_where())
        else:
            yield Work("follower", self._begin_following())
        if "web" in roles or "recorder" in roles:
            yield Work("key of statements", self._begin_exchanging_keys())
        yield Work("budget exchange", self._begin_budgets())
        yield Work("orders to erase", self._begin_erasures())

    def _keep_repeating(self, work: Work) -> None:
        ended_well = False
        try:
            self._repeat(work)
            ended_well = True
        finally:
            if not ended_well:
                self._has_failed = True
                self.stop()

    def _repeat(self, work: Work) -> None:
        trouble = TroubleLog(logger, f"THE CLUSTER IS IMPAIRED, {work.name}: %s")
        pause_s = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                next_s = work.run()
            except (redis.RedisError, sqlite3.Error, OSError) as error:
                trouble.report(f"{error}")
                self._failing[work.name] = f"{error}"
                next_s = pause_s
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                trouble.clear()
                self._failing.pop(work.name, None)
                pause_s = FIRST_PAUSE_S
            self._stop.wait(next_s)
        try:
            work.finish()
        except (redis.RedisError, OSError) as error:
            trouble.report(f"{error}")

    def _begin_shipping(self) -> Work:
        client = self._connect()
        shipper = Shipper(self._settings.proxy_spool_path, client, time.monotonic)

        def run() -> float:
            try:
                _, self._unshipped = shipper.run_round()
            except redis.RedisError:
                shipper.disconnect()
                raise
            return 0.0 if self._unshipped else SHIP_S

        def finish() -> None:
            """Ship what the proxies have left: nobody may start this node again."""
            ends_s = time.monotonic() + LAST_SHIPPING_S
            while shipper.run_round()[1] and time.monotonic() < ends_s:
                pass

        return Work("shipper", run, finish)

    def _beat(self) -> float:
        """Write the state of this node, and on a node without a recorder a sign that this process lives.

        Returns the seconds until the next time."""
        settings, now_s = self._settings, time.monotonic()
        waiting, in_flight = None, None
        if "proxy" in settings.node.parts:
            reader.remove_empty_runs(settings.proxy_spool_path)
            waiting = self._count_waiting()
            in_flight = sum(1 for _ in reader.find_in_flight(settings.proxy_spool_path))
        ClusterState(
            beat_s=now_s,
            failing=sorted(self._failing),
            unshipped=waiting,
            in_flight=in_flight,
            lag=self._lag,
            unserved=self._unserved,
            level_s=self._level_s,
        ).write(settings.data_dir)
        if "recorder" not in settings.node.parts:
            unreadable = reader.count_unreadable(settings.proxy_spool_path)
            Heartbeat(
                pid=os.getpid(), beat_s=now_s, waiting=waiting or 0, unreadable=unreadable
            ).write(settings.data_dir)
        return BEAT_S

    def _count_waiting(self) -> int:
        """Count the calls in the spool, unless the shipper has just counted them."""
        if self._unshipped is not None and "shipper" not in self._failing:
            return self._unshipped
        return sum(1 for _ in reader.find_waiting(self._settings.proxy_spool_path))

    def _make_receiver(self) -> tuple[Receiver, Copy]:
        client = self._connect()
        data_dir = self._settings.data_dir
        copy = self._copy = Copy(
            client,
            self._settings.of(GROUP),
            load_node(data_dir),
            find_address=partial(find_address, self._settings.listen, self._url),
            data_dir=data_dir,
        )
        receiver = Receiver(
            self._settings.spool_path,
            client,
            copy,
            range(BUCKETS),
            reserve_bytes=self._settings.disk_reserve,
        )
        return receiver, copy

    def _begin_receiving(self, receiver: Receiver) -> Callable[[], float]:
        trim_at_s = 0.0

        def run() -> float:
            nonlocal trim_at_s
            received = receiver.run_round()
            if time.monotonic() >= trim_at_s:
                self._lag, self._level_s = receiver.trim(), receiver.level_s
                trim_at_s = time.monotonic() + TRIM_S
            return 0.0 if received else 0.01

        return run

    def _begin_moving(self, receiver: Receiver, copy: Copy) -> Work:
        settings = self._settings
        client = self._connect()
        giver = Giver(client, receiver.find_received, settings.spool_path, settings.data_dir)
        mover = Mover(client, copy, giver, Taker(client, copy.node, settings.data_dir))

        def run() -> float:
            return MOVING_S if mover.run_round() else MOVES_S

        return Work("moves", run, mover.close)

    def _begin_publishing(self) -> Callable[[], float]:
        control = self._opened.enter_context(
            closing(
                database.open_readonly(
                    self._settings.control_path, busy_timeout_s=1.0, any_thread=True
                )
            )
        )
        return _repeat_every(DIRECTORY_S, Publisher(control, self._connect()).run_round)

    def _begin_looking_where(self) -> Callable[[], float]:
        settings = self._settings
        client = self._connect()
        node = load_node(settings.data_dir)
        whereabouts = Whereabouts(settings.data_dir, client, node, settings.of(GROUP))
        control = self._open_control()

        def run() -> float:
            whereabouts.run_round()
            if whereabouts.found is not None:
                self._unserved = count_unserved(whereabouts.found, control)
            return LOOK_S

        return run

    def _begin_following(self) -> Callable[[], float]:
        control = self._open_control(checks_references=False)
        return _repeat_every(DIRECTORY_S, Follower(control, self._connect()).run_round)

    def _begin_exchanging_keys(self) -> Callable[[], float]:
        """Return the work on the public key that checks statements: publishing it, or following it."""
        control = self._open_control()
        kind = KeyPublisher if "web" in self._settings.node.parts else KeyFollower
        return _repeat_every(KEYS_S, kind(control, self._connect()).run_round)

    def _begin_budgets(self) -> Callable[[], float]:
        """Return the work on budgets: reporting those used up by this node's calls, publishing and following
        the list."""
        settings, roles = self._settings, self._settings.node.parts
        client = self._connect()
        control = self._open_control()
        node = load_node(settings.data_dir)
        own = BudgetFile(settings.data_dir, settings.node.budgets)
        reporter = BudgetReporter(own, control, client, node)
        publisher = BudgetPublisher(PageNodesFile(settings.data_dir), control, client)
        follower = BudgetFollower(BudgetFile(settings.data_dir), client)
        parts = (("recorder", reporter), ("web", publisher), ("proxy", follower))
        return _repeat_every(BUDGETS_S, *(part.run_round for role, part in parts if role in roles))

    def _begin_erasures(self) -> Callable[[], float]:
        """Return the work on erasures: publishing and following the orders, and reporting this node's
        progress."""
        settings, roles = self._settings, self._settings.node.parts
        client = self._connect()
        control = self._open_control(checks_references="web" in roles)
        node = load_node(settings.data_dir)
        outgoing = settings.proxy_spool_path if "proxy" in roles else None
        reporter = self._reporter = OrderReporter(control, client, node, outgoing)
        rounds: list[Callable[[], bool]] = []
        if self._copy is not None:
            follower = OrderFollower(
                control,
                client,
                node,
                self._copy,
                find_level_s=lambda: self._level_s,
                has_people="web" in roles,
            )
            rounds.append(follower.run_round)
        if outgoing is not None or self._copy is not None:
            rounds.append(reporter.run_round)
        if "web" in roles:
            keeper = OrderKeeper(PageNodesFile(settings.data_dir), control, client, node)
            rounds.append(keeper.run_round)
        return _repeat_every(ERASURES_S, *rounds)

    def _leave(self) -> None:
        """Report that this node ends with nothing left to ship, so that no other waits for it."""
        if self._reporter is not None and not self._has_failed:
            with suppress(redis.RedisError, sqlite3.Error, OSError):
                self._reporter.leave()


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
    sys.exit(0 if node.run() else 1)


if __name__ == "__main__":
    main()
