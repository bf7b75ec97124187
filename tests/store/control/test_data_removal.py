from datetime import UTC, datetime

import pytest

from runtime import clock
from runtime.errors import InvalidInputError
from store.control import activity_log, retention
from store.control.retention import MIN_BYTES, Rule
from store.traces.database import TraceDatabase
from store.traces.maintenance.criteria import Criteria
from store.traces.maintenance.retention import Limits
from store.traces.paths import trace_path
from tests.store.traffic import make_entry


@pytest.fixture
def removal(management):
    return management.removal


def read_log(control, caller):
    with control.reading() as db:
        entries = activity_log.read(db, caller.organization_id)
    return [
        (each.action, each.details)
        for each in entries
        if each.action.startswith(("retention", "erase"))
    ]


def test_a_rule_is_what_was_set_last(removal, people):
    assert removal.read_rule(people.ann) == Rule()
    for rule in (Rule(text_days=1, entry_days=1), Rule(max_bytes=MIN_BYTES), Rule()):
        removal.write_rule(people.ann, rule)
        assert removal.read_rule(people.ann) == rule
    assert removal.read_state(people.ann).run is None


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (Rule(text_days=0), "text_days"),
        (Rule(entry_days=-1), "entry_days"),
        (Rule(entry_days=36_501), "entry_days"),
        (Rule(text_days=31, entry_days=30), "text_days"),
        (Rule(max_bytes=MIN_BYTES - 1), "max_bytes"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(removal, people, rule, field):
    with pytest.raises(InvalidInputError) as refused:
        removal.write_rule(people.ann, rule)
    assert refused.value.field == field


def test_an_endpoint_follows_its_organisation_where_its_rule_has_no_value(
    removal, management, people, control
):
    clinic = management.create_endpoint(people.ann, "Clinic")
    removal.write_rule(people.ann, Rule(text_days=30, entry_days=90, max_bytes=10**9))
    removal.write_rule(people.ann, Rule(text_days=1), "clinic")
    at = datetime(2026, 4, 1, tzinfo=UTC)
    with control.reading() as db:
        rules = retention.find_rules(db, people.ann.organization_id, at)
    assert rules.max_bytes == 10**9
    assert rules.find_limits("another") == Limits(
        texts_before="2026-03-02T00:00:00.000Z", entries_before="2026-01-01T00:00:00.000Z"
    )
    assert rules.find_limits(clinic.id) == Limits(
        texts_before="2026-03-31T00:00:00.000Z", entries_before="2026-01-01T00:00:00.000Z"
    )


def test_a_rule_of_a_deleted_endpoint_stays_in_force(removal, management, people, control):
    clinic = management.create_endpoint(people.ann, "Clinic")
    removal.write_rule(people.ann, Rule(text_days=1), "clinic")
    management.delete_endpoint(people.ann, "clinic")
    with control.reading() as db:
        rules = retention.find_rules(db, people.ann.organization_id, clock.now())
    assert rules.find_limits(clinic.id).texts_before is not None


@pytest.mark.parametrize(
    ("changed", "applied"),
    [
        ("2026-03-01T00:30", "2026-03-01T02:00"),
        ("2026-03-01T01:30", "2026-03-02T02:00"),
        ("2026-03-01T02:00", "2026-03-02T02:00"),
        ("2026-03-31T23:00", "2026-04-01T02:00"),
    ],
)
def test_a_new_rule_is_applied_in_the_night_and_not_within_the_hour(changed, applied):
    found = retention.find_next_run(clock.parse_instant(changed))
    assert clock.parse_instant(found) == clock.parse_instant(applied)


def test_the_preview_is_of_the_time_of_the_next_run(removal, people, tmp_path, now):
    now.at = clock.parse_instant("2026-03-02T12:00")
    with TraceDatabase(trace_path(tmp_path, people.ann.organization_id)) as traces:
        for created_at in ("2026-03-02T01:00", "2026-03-02T03:00"):
            traces.insert([make_entry(created_at=f"{created_at}:00.000Z", request_body=b"{}")])
    removal.write_rule(people.ann, Rule(text_days=1))
    state = removal.read_state(people.ann)
    assert state.run.next_at == "2026-03-03T02:00:00.000Z"
    assert (state.preview.entries, state.preview.texts) == (0, 1)
    assert state.preview.size_bytes > 0


def test_the_log_says_who_ordered_what_kind_and_never_what(removal, people, control):
    removal.write_rule(people.ann, Rule(text_days=30))
    criteria = Criteria(session="wombatish", since="2026-01-01T00:00:00.000Z")
    erasure = removal.order_erasure(people.ann, criteria)
    ordered, changed = read_log(control, people.ann)
    assert changed[0] == "retention.change"
    assert changed[1]["text_days"] == "30"
    assert ordered == ("erase.order", {"what": "session, period"})
    assert erasure.criteria == criteria


@pytest.mark.parametrize(
    ("criteria", "field"),
    [
        (Criteria(), None),
        (Criteria(session=""), "session"),
        (Criteria(client="x" * 1_001), "client"),
        (Criteria(since="2026-01-02", until="2026-01-02"), "from"),
    ],
)
def test_an_order_names_something(removal, people, criteria, field):
    for refused in (removal.count_calls, removal.order_erasure):
        with pytest.raises(InvalidInputError) as error:
            refused(people.ann, criteria)
        assert error.value.field == field
