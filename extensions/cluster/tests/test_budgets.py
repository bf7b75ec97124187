"""A budget that is used up is refused by the proxies of all nodes, and owners are told."""

from datetime import UTC, datetime

import pytest

from addon.budgets import Budgets
from extensions.cluster.buckets import BUCKETS
from extensions.cluster.budgets import BudgetFollower, BudgetPublisher, BudgetReporter
from extensions.cluster.keys import BUDGETS_OF_NODES
from extensions.cluster.page_nodes import PageNodes, PageNodesFile
from extensions.cluster.shared_rows import read_rows, write_rows
from metering.budget_periods import find_span
from runtime import clock
from runtime.webhook_rule import PUBLIC_ONLY
from store.budget_file import BudgetFile, ReachedBudget
from store.control import alerts, budget_alerts, budgets, deliveries
from store.control.alerts import Alert, AlertRule
from store.control.database import ControlDatabase
from tests.addon.endpoints import ENDPOINT

NOW = datetime(2026, 1, 2, tzinfo=UTC)
REACHED = ReachedBudget(
    organization_id=ENDPOINT.organization_id,
    subject_id=ENDPOINT.organization_id,
    period="day",
    starts_s=0.0,
    resets_s=100.0,
    resets_at="1970-01-01",
)


class Nodes:
    """The node with people, which is the recorder ``a``, the recorder ``b``, and a proxy."""

    def __init__(self, folder, client) -> None:
        self._folder, self._client = folder, client
        self.files = {name: BudgetFile(folder, f"{name}.json") for name in "ab"}
        self.proxy = BudgetFile(folder)
        self.controls = {
            name: ControlDatabase(folder / f"{name}.db", checks_references=name == "a")
            for name in "ab"
        }
        self.controls["a"].set_up()
        self._reporters = [
            BudgetReporter(self.files[name], self.controls[name], client, name, lambda: NOW)
            for name in "ab"
        ]
        self._follower = BudgetFollower(self.proxy, client)
        self.let_keep("a", "b")

    def let_keep(self, main, copy):
        """Let one node keep all calls of the first copy, and the other those of the second."""
        holders = {"main": [main] * BUCKETS, "copy": [copy] * BUCKETS}
        PageNodes(here="a", group="main", holders=holders).write(self._folder)
        nodes = PageNodesFile(self._folder)
        self._publisher = BudgetPublisher(nodes, self.controls["a"], self._client, lambda: NOW)

    def run(self):
        """Let each do its part once; return whether anything was said anew."""
        said = [each.run_round() for each in self._reporters]
        return True in [*said, self._publisher.run_round(), self._follower.run_round()]

    def close(self):
        for control in self.controls.values():
            control.close()


@pytest.fixture
def nodes(tmp_path, client):
    nodes = Nodes(tmp_path, client)
    yield nodes
    nodes.close()


@pytest.mark.parametrize("keeper", ["a", "b"])
def test_a_budget_is_refused_on_a_proxy_node_until_it_is_no_longer_used_up(nodes, keeper):
    nodes.let_keep(keeper, "nobody")
    nodes.files[keeper].write([REACHED])
    assert nodes.run()
    assert not nodes.run()
    found = Budgets(nodes.proxy, lambda _: None, lambda: 50.0)
    refusal = found.admit(ENDPOINT)
    assert refusal is not None
    nodes.files[keeper].write([])
    assert nodes.run()
    assert nodes.proxy.identify() is None
    found.refresh()
    assert found.admit(ENDPOINT) is None


def test_a_copy_that_is_behind_or_no_longer_there_refuses_nothing(nodes):
    nodes.files["b"].write([REACHED])
    nodes.run()
    assert nodes.proxy.read() == ()


def test_a_server_that_lost_the_budgets_is_told_them_again_and_no_proxy_forgets_them(nodes, client):
    nodes.files["a"].write([REACHED])
    nodes.run()
    client.flushall()
    assert nodes._follower.run_round() is False
    assert nodes.proxy.read() == [REACHED]
    assert nodes.run()
    assert client.hlen(BUDGETS_OF_NODES) == 2


def test_owners_are_told_once_of_a_budget_whose_calls_another_node_has(nodes):
    nodes.let_keep("b", "a")
    home, other = nodes.controls["a"], nodes.controls["b"]
    with home.transaction() as db:
        (organization_id,) = db.execute("select id from organizations").fetchone()
        db.execute("update users set email = 'ann@example.org'")
        budgets.put(db, organization_id, None, period="day", limit_usd=5.0, action="warn")
    with home.reading() as db, other.transaction() as written:
        write_rows(written, {}, read_rows(db))
    with other.transaction() as db:
        (budget,) = budgets.list_all(db)
        span = find_span(budget.period, budget.time_zone, NOW)
        assert budget_alerts.make_alert(db, budget, span, 5.5, NOW) is not None
    for _ in range(2):
        nodes.run()
    nodes.let_keep("b", "a")  # the process was started again
    nodes.run()
    with home.reading() as db:
        (delivery,) = deliveries.list_latest(db, organization_id, 10)
    assert isinstance(delivery.alert, budget_alerts.Alert)
    assert (delivery.target, delivery.alert.percent) == ("ann@example.org", 100)
    assert delivery.alert.spent_usd == 5.5


def test_an_alert_that_another_node_has_found_is_sent_once_from_where_the_people_are(nodes):
    nodes.let_keep("b", "a")
    home, other = nodes.controls["a"], nodes.controls["b"]
    with home.transaction() as db:
        (organization_id,) = db.execute("select id from organizations").fetchone()
        rule = AlertRule(
            id=clock.new_id(),
            organization_id=organization_id,
            kind="day_cost",
            threshold=5.0,
            channel="webhook",
            format="slack",
            url="https://hooks.example.org/services/secret",
            created_at=clock.format_ms(NOW),
        )
        alerts.create_rule(db, rule, PUBLIC_ONLY)
    with home.reading() as db, other.transaction() as written:
        rows = read_rows(db)
        assert not any(b"secret" in each for key, each in rows.items() if key.startswith("alert"))
        write_rows(written, {}, rows)
    with other.transaction() as db:
        (seen,) = alerts.list_all_rules(db)
        assert seen.url is None
        assert alerts.make(db, make_alert(seen))
        assert deliveries.list_due(db, NOW, 10) == []
    for _ in range(2):
        nodes.run()
    nodes.let_keep("b", "a")  # the process was started again
    nodes.run()
    with home.reading() as db:
        (delivery,) = deliveries.list_latest(db, organization_id, 10)
        assert len(alerts.list_active(db, organization_id, NOW, 10)) == 1
    assert delivery.target == "https://hooks.example.org/services/secret"


def make_alert(rule):
    return Alert(
        id=clock.new_id(),
        organization_id=rule.organization_id,
        rule_id=rule.id,
        occasion="2026-01-02",
        kind=rule.kind,
        subject="2026-01-02 costs $6",
        sentence="so far, over $5.",
        link="/calls",
        at=clock.format_ms(NOW),
    )
