"""A budget that is used up is refused by the proxies of all nodes."""

import pytest

from addon.budgets import Budgets
from addon.routing import Destination
from cluster.budgets import BudgetFollower, BudgetPublisher
from store.budget_file import BudgetFile, ReachedBudget
from tests.addon.endpoints import ENDPOINT

REACHED = ReachedBudget(
    organization_id=ENDPOINT.organization_id,
    subject_id=ENDPOINT.organization_id,
    period="day",
    starts_s=0.0,
    resets_s=100.0,
    resets_at="1970-01-01",
)


@pytest.fixture
def files(tmp_path):
    """Return the files of the web node and of a proxy node."""
    folders = [tmp_path / "web", tmp_path / "proxy"]
    for folder in folders:
        folder.mkdir()
    return [BudgetFile(folder) for folder in folders]


def test_a_budget_is_refused_on_a_proxy_node_until_it_is_no_longer_used_up(files, client):
    web, proxy = files
    publisher, follower = BudgetPublisher(web, client), BudgetFollower(proxy, client)
    web.write([REACHED])
    assert (publisher.run_round(), follower.run_round()) == (True, True)
    assert (publisher.run_round(), follower.run_round()) == (False, False)
    budgets = Budgets(proxy, lambda _: None, lambda: 50.0)
    refusal = budgets.admit(Destination.MESSAGES, "POST", "/v1/messages", ENDPOINT)
    assert refusal is not None
    web.write([])
    assert (publisher.run_round(), follower.run_round()) == (True, True)
    assert proxy.identify() is None
    budgets.refresh()
    assert budgets.admit(Destination.MESSAGES, "POST", "/v1/messages", ENDPOINT) is None


def test_a_server_that_lost_the_budgets_is_told_them_again_and_no_proxy_forgets_them(files, client):
    web, proxy = files
    publisher, follower = BudgetPublisher(web, client), BudgetFollower(proxy, client)
    web.write([REACHED])
    publisher.run_round()
    follower.run_round()
    client.flushall()
    assert follower.run_round() is False
    assert proxy.read() == [REACHED]
    assert publisher.run_round() is True
