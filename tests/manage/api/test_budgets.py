import pytest

from runtime import clock

BUDGET = {"period": "day", "limit_usd": 50, "action": "refuse"}


@pytest.fixture
def ask(ask):
    """Returns the status and the document of a response; the organisation has the endpoint ``ci``."""
    assert ask("ann", "POST", "/proxy-endpoints", json={"name": "CI"}).is_success

    def ask_for(who, method, path, body=None):
        response = ask(who, method, path, json=body)
        return response.status_code, response.json()

    return ask_for


@pytest.mark.parametrize(
    ("path", "slug"), [("/proxy-endpoints/ci/budget", "ci"), ("/budget", None)]
)
def test_a_budget_is_set_read_and_deleted(ask, path, slug):
    assert ask("ann", "GET", path)[0] == 404
    status, budget = ask("ann", "PUT", path, BUDGET)
    assert status == 200
    assert budget | BUDGET == budget
    assert (budget["slug"], budget["proxy_endpoint_id"] is None) == (slug, slug is None)
    assert (budget["spent_usd"], budget["unpriced_calls"], budget["time_zone"]) == (0, 0, "UTC")
    starts_at = clock.parse_instant(budget["starts_at"])
    assert starts_at <= clock.now() < clock.parse_instant(budget["resets_at"])
    assert ask("bob", "GET", path) == (200, budget)
    assert ask("bob", "GET", "/budgets")[1]["items"] == [budget]
    assert ask("ann", "DELETE", path) == (200, {"ok": True})
    assert ask("ann", "DELETE", path)[0] == 404


def test_a_budget_that_cannot_be_names_the_field(ask, subtests):
    for body, field in (
        ({"period": "day"}, "limit_usd"),
        (BUDGET | {"limit_usd": 0}, "limit_usd"),
        (BUDGET | {"limit_usd": "50"}, "limit_usd"),
        (BUDGET | {"limit_usd": 1e12}, "limit_usd"),
        (BUDGET | {"period": "year"}, "period"),
        (BUDGET | {"action": "stop"}, "action"),
        (BUDGET | {"warn_at": [0.5, 1.5]}, "warn_at"),
        (BUDGET | {"warn_at": 0.5}, "warn_at"),
        (BUDGET | {"of": {"project": "shop"}}, "of"),  # it refuses
        (BUDGET | {"action": "warn", "of": {"model": "m"}}, "of"),
        (BUDGET | {"action": "warn", "of": {}}, "of"),
        (BUDGET | {"action": "warn", "of": {"user": "a", "tag": "b"}}, "of"),
        (BUDGET | {"action": "warn", "of": {"user": "Ann Lee"}}, "of"),
        (BUDGET | {"action": "warn", "of": {"tag": "user:ann"}}, "of"),
        (BUDGET | {"percent": 50}, "percent"),
    ):
        with subtests.test(str(body)):
            status, response = ask("ann", "PUT", "/budget", body)
            assert (status, response["error"]["field"]) == (400, field)


PART = {"period": "week", "limit_usd": 20, "warn_at": [0.9, 0.5], "of": {"project": "shop"}}


@pytest.mark.parametrize("path", ["/proxy-endpoints/ci/budget", "/budget"])
def test_a_budget_of_a_part_is_set_read_and_deleted_by_its_name(ask, path):
    status, budget = ask("ann", "PUT", path, PART)
    assert (status, budget["of"], budget["warn_at"]) == (200, {"project": "shop"}, [0.5, 0.9])
    assert (budget["period"], budget["action"]) == ("week", "warn")
    assert clock.parse_instant(budget["starts_at"]).weekday() == 0
    assert ask("ann", "PUT", path, BUDGET)[1]["of"] is None
    assert ask("bob", "GET", f"{path}?project=shop") == (200, budget)
    assert ask("bob", "GET", path)[1]["warn_at"] == [0.8]
    assert ask("bob", "GET", f"{path}?project=web")[0] == 404
    assert ask("bob", "GET", f"{path}?project=shop&user=ann")[0] == 400
    assert [each["of"] for each in ask("bob", "GET", "/budgets")[1]["items"]] == [
        None,
        {"project": "shop"},
    ]
    assert ask("ann", "DELETE", f"{path}?project=shop") == (200, {"ok": True})
    assert ask("ann", "GET", f"{path}?project=shop")[0] == 404
    assert ask("ann", "GET", path)[0] == 200


def test_a_refusal_of_a_part_says_why_it_cannot_be(ask):
    status, response = ask("ann", "PUT", "/budget", PART | {"action": "refuse"})
    assert status == 400
    assert "clients name their project themselves" in response["error"]["message"]


def test_a_budget_warns_unless_it_is_told_to_refuse(ask):
    assert (
        ask("ann", "PUT", "/budget", {"period": "month", "limit_usd": 0.5})[1]["action"] == "warn"
    )


def test_the_time_zone_of_the_organisation_is_set(ask):
    _, organization = ask("bob", "GET", "/organization")
    assert (organization["name"], organization["time_zone"]) == ("ann's", "UTC")
    assert ask("ann", "PATCH", "/organization", {"time_zone": "Mars/Base"})[0] == 400
    status, changed = ask("ann", "PATCH", "/organization", {"time_zone": "Asia/Kathmandu"})
    assert (status, changed) == (200, organization | {"time_zone": "Asia/Kathmandu"})
    assert ask("ann", "PUT", "/budget", BUDGET)[1]["starts_at"].endswith("T18:15:00Z")


def test_a_webhook_has_its_secret_in_one_response(ask):
    path, url = "/budget-webhook", {"url": "https://hooks.example.org/x"}
    assert ask("ann", "GET", path)[0] == 404
    status, created = ask("ann", "PUT", path, url)
    assert status == 200
    secret = created.pop("secret")
    assert secret.startswith("whsec_")
    assert ask("ann", "GET", path) == (200, created)
    assert ask("ann", "PUT", path, url)[1]["secret"] != secret
    status, response = ask("ann", "PUT", path, {"url": "https://127.0.0.1/"})
    assert (status, response["error"]["field"]) == (400, "url")
    assert ask("ann", "DELETE", path) == (200, {"ok": True})
    assert ask("ann", "GET", path)[0] == 404
