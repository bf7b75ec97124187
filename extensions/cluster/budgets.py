"""The used-up budgets, sent to the proxies of all nodes.

``keys.BUDGETS_OF_NODES`` has the report of each recorder node on the budgets of its calls, and
``keys.BUDGETS`` the budget file of all organisations.

Each recorder adds up the costs of the calls in its copy. From each report, the node with the pages
takes the organisations whose first copy that node keeps. It notifies owners, and publishes one file,
which each proxy node writes for its proxies. The file has the periods of the budgets, so that a proxy
stops refusing at their end by itself, even if other nodes are away."""

from collections.abc import Callable
from datetime import datetime

from extensions.cluster import checks, reading, records, server
from extensions.cluster.keys import BUDGETS, BUDGETS_OF_NODES
from extensions.cluster.page_nodes import PageNodesFile
from extensions.cluster.records import BudgetReport
from runtime import clock
from store.budget_file import BudgetFile, ReachedBudget, pack
from store.control import alerts, budget_alerts
from store.control.database import ControlDatabase
from store.control.deliveries import AnyAlert


class BudgetReporter:
    """Reports the budgets that the calls of this recorder node have used up, and the alerts that it made."""

    def __init__(
        self,
        file: BudgetFile,
        control: ControlDatabase,
        client: server.Client,
        node: str,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._file, self._control, self._client = file, control, client
        self._node = node
        self._now = now

    def run_round(self) -> bool:
        """Write this node's report to the server if it has changed; return whether it had.

        Raises redis.RedisError, sqlite3.Error."""
        with self._control.reading() as db:
            now = self._now()
            report = BudgetReport(
                reached=self._file.read(),
                alerts=budget_alerts.list_current(db, now),
                fired=alerts.list_current(db, now),
            )
        content = report.pack()
        if reading.is_said(self._client, BUDGETS_OF_NODES, content, self._node):
            return False
        self._client.hset(BUDGETS_OF_NODES, self._node, content)
        return True


class BudgetPublisher:
    """Publishes one budget file, made of the reports of all recorder nodes."""

    def __init__(
        self,
        nodes: PageNodesFile,
        control: ControlDatabase,
        client: server.Client,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._nodes, self._control, self._client = nodes, control, client
        self._now = now
        self._alerted: set[str] = set()

    def run_round(self) -> bool:
        """Publish the file if it has changed; return whether it had.

        Raises redis.RedisError, sqlite3.Error."""
        nodes = self._nodes.read()
        if nodes is None:
            return False
        reached: list[ReachedBudget] = []
        told: list[AnyAlert] = []
        said = reading.read_hash(self._client, BUDGETS_OF_NODES, _parse_report)
        for node, found in sorted(said.items()):
            reached += [
                each for each in found.reached if nodes.is_first(node, each.organization_id)
            ]
            told += [
                each for each in _list_told(found) if nodes.is_first(node, each.organization_id)
            ]
        self._repeat(told)
        content = pack(reached)
        if reading.is_said(self._client, BUDGETS, content):
            return False
        self._client.set(BUDGETS, content)
        return True

    def _repeat(self, told: list[AnyAlert]) -> None:
        """Make the alerts of other nodes again on this node, which notifies people. Raises sqlite3.Error."""
        new = [each for each in told if each.id not in self._alerted]
        if not new:
            return
        with self._control.transaction() as db:
            for alert in new:
                if isinstance(alert, alerts.Alert):
                    alerts.make(db, alert)
                else:
                    budget_alerts.repeat_alert(db, alert, self._now())
        self._alerted = {each.id for each in told}


def _list_told(report: BudgetReport) -> list[AnyAlert]:
    return [*report.alerts, *report.fired]


class BudgetFollower:
    """Writes the published budget file on a proxy node."""

    def __init__(self, file: BudgetFile, client: server.Client) -> None:
        self._file, self._client = file, client

    def run_round(self) -> bool:
        """Write the published file if it differs from the local one; return whether it did.

        Raises redis.RedisError, OSError."""
        reached = reading.read_value(self._client, BUDGETS, records.parse_reached)
        # A server that has lost it is told again by the node with people.
        if reached is None or (content := pack(reached)) == self._file.copy():
            return False
        self._file.paste(content)
        return True


def _parse_report(node: str, content: bytes) -> BudgetReport:
    checks.name(node)
    return records.parse_budget_report(content)
