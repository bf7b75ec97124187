"""The rights to use operations: what an operation declares is what the service does."""

from http import HTTPStatus

import pytest

from manage.api.operation import FOR_OWNERS
from manage.api.operations import OPERATIONS

BUDGET = {"period": "day", "limit_usd": 50}
ALERT = {"kind": "day_cost", "threshold": 5}
# Of each operation that takes one and is for owners, or about something of an organisation.
BODIES = {
    "updateProxyEndpoint": {"name": "Other"},
    "setEndpointBudget": BUDGET | {"limit_usd": 1},
    "setBudget": BUDGET | {"limit_usd": 1},
    "setBudgetWebhook": {"url": "https://hooks.example.org/other"},
    "createAlert": ALERT | {"threshold": 1},
    "updateOrganization": {"time_zone": "Europe/Berlin"},
    "setCredentialName": {"name": "other"},
    "setAgentName": {"name": "other"},
    "putRetention": {"text_days": 1},
    "putProxyEndpointRetention": {"text_days": 1},
    "createErasure": {"session": "other"},
}


@pytest.fixture
def things(ann):
    """The ids of what an organisation has, by the paths that lead to it."""

    def make(method, path, body):
        made = ann(method, path, json=body)
        assert made.is_success, made.text
        return made.json()

    endpoint = make("POST", "/proxy-endpoints", {"name": "CI"})["id"]
    make("PUT", f"/proxy-endpoints/{endpoint}/budget", BUDGET)
    make("PUT", "/budget", BUDGET)
    make("PUT", "/budget-webhook", {"url": "https://hooks.example.org/x"})
    make("PUT", "/credential-names/7d1c", {"name": "ci key"})
    make("PUT", "/agent-names/a0f3", {"name": "reviewer"})
    return {
        "/proxy-endpoints/{id}": endpoint,
        "/proxy-endpoints/{id}/budget": "ci",
        "/proxy-endpoints/{id}/retention": "ci",
        "/alerts/{id}": make("POST", "/alerts", ALERT)["id"],
        "/alerts/{id}/test": make("POST", "/alerts", ALERT)["id"],
        "/api-keys/{id}": ann("GET", "/api-keys").json()["items"][0]["id"],
        "/credential-names/{id}": "7d1c",
        "/agent-names/{id}": "a0f3",
        "/erasures/{id}": make("POST", "/erasures", {"session": "s"})["id"],
    }


@pytest.fixture
def read_all(ann, things):
    """Reads all that the operations of an organisation change."""
    paths = [
        operation.path.replace("{id}", things.get(operation.path, ""))
        for operation in OPERATIONS
        if operation.method == "GET" and ("{" not in operation.path or operation.path in things)
    ]

    def read():
        found = {path: ann("GET", path).json() for path in paths}
        del found["/api-keys"]  # their use is noted
        return found

    return read


def use(ask, who, operation, things):
    path = operation.path.replace("{id}", things.get(operation.path, ""))
    body = {"json": BODIES[operation.name]} if operation.takes_body else {}
    response = ask(who, operation.method, path, **body)
    return response.status_code, response.json().get("error", {}).get("message")


def test_an_operation_that_is_for_owners_refuses_other_members(ask, things, read_all, subtests):
    before = read_all()
    operations = [each for each in OPERATIONS if FOR_OWNERS.items() <= each.errors.items()]
    assert len(operations) >= 20
    for operation in operations:
        with subtests.test(operation.name):
            status, message = use(ask, "bob", operation, things)
            assert (status, message[:38]) == (403, "Only an owner of the organisation may ")
    counted = ask("bob", "POST", "/erasures", json={"session": "s", "dry_run": True})
    assert counted.status_code == 403
    assert read_all() == before


def test_nothing_of_an_organisation_is_there_for_another(ask, things, read_all, subtests):
    before = read_all()
    operations = [
        each for each in OPERATIONS if each.path in things and HTTPStatus.NOT_FOUND in each.errors
    ]
    assert len(operations) >= 15
    for operation in operations:
        with subtests.test(operation.name):
            assert use(ask, "cid", operation, things) == (
                404,
                operation.errors[HTTPStatus.NOT_FOUND],
            )
    assert read_all() == before
    assert ask("cid", "GET", "/budgets").json()["items"] == []
    for path in ("/budget", "/budget-webhook"):
        assert ask("cid", "GET", path).status_code == 404
        assert ask("cid", "DELETE", path).status_code == 404
    for path in ("/alerts", "/credential-names", "/agent-names", "/erasures", "/proxy-endpoints"):
        assert ask("cid", "GET", path).json()["items"] == []
    assert read_all() == before
