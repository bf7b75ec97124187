import json

import pytest

from addon.budgets import Budgets
from runtime.files import replace_private
from store.budget_file import BudgetFile, ReachedBudget
from tests.addon.endpoints import ENDPOINT

START_S, RESET_S = 1_000_000.0, 1_086_400.0


class Clock:
    now_s = START_S + 400

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def file(tmp_path):
    return BudgetFile(tmp_path)


@pytest.fixture
def rejected():
    return []


@pytest.fixture
def budgets(file, rejected, clock):
    return Budgets(file, rejected.append, clock)


def make_reached(subject_id=ENDPOINT.id, **changes):
    return ReachedBudget(
        **{
            "organization_id": ENDPOINT.organization_id,
            "subject_id": subject_id,
            "period": "day",
            "starts_s": START_S,
            "resets_s": RESET_S,
            "resets_at": "2026-11-23 00:00 Europe/Berlin",
        }
        | changes
    )


def ask(budgets):
    return budgets.admit(ENDPOINT)


def test_a_call_over_the_budget_is_refused_until_the_reset(budgets, file, rejected, clock):
    assert ask(budgets) is None
    file.write([make_reached()])
    budgets.refresh()
    refusal = ask(budgets)
    assert (refusal.status, refusal.code) == (429, "budget_reached")
    assert refusal.error_type == "billing_error"
    assert dict(refusal.headers) == {b"retry-after": b"86000", b"x-should-retry": b"false"}
    message = json.loads(refusal.body())["error"]["message"]
    assert "The budget of this proxy endpoint for the day is used up." in message
    assert "2026-11-23 00:00 Europe/Berlin" in message
    assert rejected == [ENDPOINT]
    clock.now_s = RESET_S - 0.5
    assert dict(ask(budgets).headers)[b"retry-after"] == b"1"
    # From here on without the recorder: the file stays as it is.
    clock.now_s = RESET_S
    assert ask(budgets) is None


def test_a_budget_of_the_organisation_refuses_for_all_its_endpoints(budgets, file):
    file.write([make_reached(ENDPOINT.organization_id)])
    budgets.refresh()
    assert "The budget of the organisation for the day" in ask(budgets).message


def test_budgets_of_others_refuse_nothing(budgets, file, rejected):
    file.write([make_reached("another endpoint"), make_reached("another organisation")])
    budgets.refresh()
    assert ask(budgets) is None
    assert rejected == []


def test_a_clock_that_is_set_back_is_in_another_period(budgets, file, clock):
    file.write([make_reached()])
    budgets.refresh()
    clock.now_s = START_S - 1
    assert ask(budgets) is None


def test_a_proxy_that_starts_knows_what_was_reached_before(file, rejected, clock):
    file.write([make_reached()])
    assert ask(Budgets(file, rejected.append, clock)) is not None


@pytest.mark.parametrize("content", [b"[]", b"{", b'[{"subject_id": 1}]', b"[1]"])
def test_a_file_that_says_nothing_ends_all_refusals(budgets, file, tmp_path, content):
    file.write([make_reached()])
    budgets.refresh()
    replace_private(tmp_path / "budgets.json", content)
    budgets.refresh()
    assert ask(budgets) is None


def test_the_file_is_read_only_when_it_is_another_one(budgets, file, monkeypatch):
    file.write([make_reached()])
    budgets.refresh()
    monkeypatch.setattr(file, "read", lambda: pytest.fail("read again"))
    budgets.refresh()
    assert ask(budgets) is not None
