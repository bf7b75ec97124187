"""The rights of owners and other members over endpoints with and without a budget or a rule."""

from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from runtime import clock
from runtime.errors import ForbiddenError, NotFoundError
from store.control import activity_log, budgets
from store.control.management import Management
from store.control.retention import Rule
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

NOW = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
RULE = Rule(text_days=7, entry_days=30)

GUARDS = {
    "nothing": (),
    "a budget": ("a budget",),
    "a retention rule": ("a retention rule",),
    "both": ("a budget", "a retention rule"),
}
OPERATIONS = {
    "rename": lambda manage, who: manage.update_endpoint(who, "ci", name="Other"),
    "change streaming": lambda manage, who: manage.update_endpoint(who, "ci", streaming="buffered"),
    "change nothing": lambda manage, who: manage.update_endpoint(who, "ci", metadata_only=False),
    "delete": lambda manage, who: manage.delete_endpoint(who, "ci"),
    "drop bodies": lambda manage, who: manage.update_endpoint(who, "ci", metadata_only=True),
    "set a budget": lambda manage, who: put_budget(manage, who, 10**6),
    "delete the budget": lambda manage, who: manage.budgets.delete(who, "ci"),
    "set a rule": lambda manage, who: manage.removal.write_rule(who, Rule(), "ci"),
}
FOR_OWNERS = frozenset({"drop bodies", "set a budget", "delete the budget", "set a rule"})


@pytest.fixture
def manage(control, tmp_path):
    return Management(control, tmp_path, lambda: NOW)


def put_budget(manage, caller, limit_usd=50.0):
    return manage.budgets.put(caller, "ci", period="day", limit_usd=limit_usd, action="refuse")


def make(manage, people, guards=(), **fields):
    endpoint = manage.create_endpoint(people.ann, "CI", "ci", **fields)
    if "a budget" in guards:
        put_budget(manage, people.ann)
    if "a retention rule" in guards:
        manage.removal.write_rule(people.ann, RULE, "ci")
    return endpoint


def read_state(manage, people):
    """Return all that these operations change."""
    owner = people.ann
    endpoints = manage.list_endpoints(owner).items
    rules = [manage.removal.read_rule(owner, each.id) for each in endpoints]
    return endpoints, manage.budgets.list(owner).items, rules


@pytest.mark.parametrize("guard", GUARDS)
def test_what_a_member_may_not_do_to_an_endpoint(manage, people, guard):
    make(manage, people, GUARDS[guard])
    before = read_state(manage, people)
    for name in OPERATIONS if GUARDS[guard] else FOR_OWNERS:
        with pytest.raises(ForbiddenError, match="only an owner of the organisation") as refused:
            OPERATIONS[name](manage, people.bob)
        assert read_state(manage, people) == before, name
        if name not in FOR_OWNERS:
            assert all(word in str(refused.value) for word in GUARDS[guard]), name


@pytest.mark.parametrize(
    ("role", "guard", "operation"),
    [
        *(("owner", guard, name) for guard in GUARDS for name in OPERATIONS),
        *(("member", "nothing", name) for name in OPERATIONS if name not in FOR_OWNERS),
    ],
)
def test_what_one_may_do_to_an_endpoint(manage, people, role, guard, operation):
    make(manage, people, GUARDS[guard])
    who = people.ann if role == "owner" else people.bob
    no_budget = operation == "delete the budget" and "a budget" not in GUARDS[guard]
    with pytest.raises(NotFoundError, match="no budget") if no_budget else nullcontext():
        OPERATIONS[operation](manage, who)


@pytest.mark.parametrize("guard", GUARDS)
def test_the_guards_of_an_endpoint_are_told(manage, people, guard):
    make(manage, people, GUARDS[guard])
    assert tuple(manage.find_guards(people.bob, "ci")) == GUARDS[guard]
    with pytest.raises(NotFoundError):
        manage.find_guards(people.cid, "ci")


@pytest.mark.parametrize("by", ["ann", "bob"])
def test_a_slug_that_is_made_again_has_all_that_was_decided(manage, people, by, tmp_path):
    first = make(manage, people, GUARDS["both"], metadata_only=True)
    with TraceDatabase(trace_path(tmp_path, people.ann.organization_id)) as traces:
        at = clock.format_ms(NOW)
        traces.insert(
            [make_entry(proxy_endpoint_id=first.id, created_at=at, cost_cents=Decimal(2500))]
        )
    manage.delete_endpoint(people.ann, "ci")
    assert manage.budgets.list(people.ann).items == []
    again = manage.create_endpoint(getattr(people, by), "CI again", "ci", "buffered")
    assert (again.id, again.name, again.streaming) == (first.id, "CI again", "buffered")
    assert again.created_at > first.created_at
    assert again.metadata_only
    assert manage.removal.read_rule(people.bob, "ci") == RULE
    status = manage.budgets.get(people.bob, "ci")
    assert (status.budget.limit_usd, status.budget.action) == (50, "refuse")
    assert status.spent_usd == 25, "what was spent in the period stays spent"
    assert manage.list_endpoints(people.ann).items == [again]


def test_a_slug_made_from_a_name_is_one_that_is_made_again_too(manage, people):
    make(manage, people, GUARDS["a budget"])
    manage.delete_endpoint(people.ann, "ci")
    assert manage.create_endpoint(people.bob, "CI").slug == "ci"
    assert put_budget(manage, people.ann).budget == manage.budgets.list(people.ann).items[0]
    with pytest.raises(ForbiddenError):
        manage.delete_endpoint(people.bob, "ci")


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("wanted", [None, False, True])
@pytest.mark.parametrize("by", ["ann", "bob"])
def test_metadata_only_outlives_its_endpoint(manage, people, before, wanted, by):
    make(manage, people, metadata_only=before)
    manage.delete_endpoint(people.bob, "ci")
    if by == "bob" and wanted not in (None, before):
        with pytest.raises(ForbiddenError, match="whether bodies of 'ci' are stored"):
            manage.create_endpoint(people.bob, "CI", "ci", metadata_only=wanted)
        assert manage.list_endpoints(people.ann).items == []
    else:
        again = manage.create_endpoint(getattr(people, by), "CI", "ci", metadata_only=wanted)
        assert again.metadata_only is (before if wanted is None else wanted)


def test_a_budget_of_a_deleted_endpoint_is_not_looked_after(manage, people, control):
    make(manage, people, GUARDS["a budget"])
    manage.delete_endpoint(people.ann, "ci")
    with control.reading() as db:
        assert budgets.list_all(db) == []
    assert manage.budgets.list_all(people.ann) == []


@pytest.mark.parametrize("guard", GUARDS)
def test_a_role_counts_as_it_is_when_something_changes(manage, people, control, guard):
    make(manage, people, GUARDS[guard])
    with control.transaction() as db:
        db.execute(
            "update memberships set role = 'member' where user_id = ?", (people.ann.user_id,)
        )
    before = read_state(manage, people)
    for change in OPERATIONS.values():
        with pytest.raises(ForbiddenError, match="your role in this organisation has just changed"):
            change(manage, people.ann)
    assert read_state(manage, people) == before


def test_a_refused_change_is_not_in_the_activity_log(manage, people, control):
    make(manage, people, GUARDS["a budget"])
    with pytest.raises(ForbiddenError):
        manage.delete_endpoint(people.bob, "ci")
    with control.reading() as db:
        assert activity_log.read(db, people.ann.organization_id)[0].action == "budget.set"
