"""Retention in the settings: the forms of owners, the preview, and that nobody sees another's."""

import pytest

from runtime import clock
from store.control import audit, erasures, retention
from store.control.management import Management
from store.control.retention import Rule
from store.traces.database import TraceDatabase
from store.traces.maintenance.retention import Pruned
from tests.dashboard.pages import words_of
from tests.proxy_endpoints import create_endpoint
from tests.store.traffic import make_entry


@pytest.fixture
def rule_of(control, settings):
    management = Management(control, settings.data_dir)

    def rule_of(person, endpoint=None):
        return management.removal.read_rule(management.find_caller(person.email), endpoint)

    return rule_of


def words(response):
    return words_of(response.text)


def test_an_owner_sets_a_rule_and_sees_what_it_will_remove(ann, rule_of):
    with TraceDatabase(ann.path) as traces:
        traces.insert([make_entry(request_body=b"{}"), make_entry()])
    assert "so everything is kept" in words(ann.get("/settings/data"))
    answer = ann.post("/settings/retention", text_days="30", entry_days="", max_bytes="20 gb")
    assert answer.headers["location"] == "/settings/data?done=retention-set"
    assert rule_of(ann) == Rule(text_days=30, max_bytes=20 * 10**9)
    page = words(ann.get("/settings/data"))
    assert "The next run removes 0 calls and the texts of 1 more" in page
    assert "Texts 30 days texts of 1 call" in page
    assert "Database up to 20GB" in page
    assert 'value="20GB"' in ann.get("/settings/data/retention").text
    ann.post("/settings/retention", text_days="", entry_days="", max_bytes="")
    assert rule_of(ann) == Rule()


def test_rules_can_be_set_while_the_traces_cannot_be_read(ann, rule_of):
    ann.path.parent.mkdir(parents=True, exist_ok=True)
    ann.path.write_bytes(b"no database" * 1_000)
    assert ann.post("/settings/retention", text_days="30").status_code == 303
    assert "The database cannot be read now." in words(ann.get("/settings/data"))
    assert rule_of(ann) == Rule(text_days=30)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text_days", "soon"),
        ("text_days", "0"),
        ("entry_days", "-1"),
        ("entry_days", "999999999"),
        ("max_bytes", "1KB"),
        ("max_bytes", "much"),
    ],
)
def test_a_value_that_is_not_valid_comes_back_with_the_reason(ann, rule_of, name, value):
    fields = {"text_days": "", "entry_days": "", "max_bytes": ""} | {name: value}
    answer = ann.post("/settings/retention", **fields)
    assert answer.status_code == 400
    assert f'id="retention-{name}-problem"' in answer.text
    assert f'value="{value}"' in answer.text
    assert rule_of(ann) == Rule()


def test_an_endpoint_has_a_form_of_its_own(ann, control, rule_of):
    endpoint = create_endpoint(control, ann.organization_id, "clinic")
    path = f"/settings/endpoints/{endpoint.id}"
    assert "as the organisation" in words(ann.get(path))
    assert ann.post(f"{path}/retention", text_days="1", entry_days="7").status_code == 303
    assert rule_of(ann, "clinic") == Rule(text_days=1, entry_days=7)
    refused = ann.post(f"{path}/retention", text_days="8", entry_days="7")
    assert refused.status_code == 400
    assert "retention-text_days-problem" in refused.text


def test_members_neither_see_nor_set_it(ann, bob, cid, control, rule_of):
    endpoint = create_endpoint(control, ann.organization_id, "clinic")
    path = f"/settings/endpoints/{endpoint.id}"
    assert "/settings/retention" not in bob.get("/settings/data").text
    assert f"{path}/retention" not in bob.get(path).text
    assert bob.post("/settings/retention", text_days="1").status_code == 403
    assert bob.post(f"{path}/retention", text_days="1").status_code == 403
    assert cid.post(f"{path}/retention", text_days="1").status_code == 404
    assert cid.post("/settings/retention", text_days="1").status_code == 303
    assert rule_of(ann) == rule_of(ann, "clinic") == Rule()


def test_runs_and_erasures_are_told_in_words(ann, control):
    ann.post("/settings/retention", text_days="30")
    pruned = Pruned(entries=1, texts=12_300, bytes_before=1_200_000_000, bytes_after=0)
    with control.transaction() as db:
        retention.note_run(db, ann.organization_id, pruned, clock.now())
        details = {"calls": "1", "texts": "12300", "bytes": "1200000000"}
        audit.write_for_service(db, ann.organization_id, retention.APPLIED, "x", details)
        details = {"what": "session", "calls": "12"}
        audit.write_for_service(db, ann.organization_id, erasures.ENDED, "x", details)
    page = words(ann.get("/settings/data"))
    assert "1 call and the texts of 12,300 more, 1.2 GB" in page
    page = words(ann.get("/settings/security"))
    assert "applied the retention rules: 1 call, the texts of 12,300 more, 1.2 GB" in page
    assert "finished erasing by session: 12 calls" in page
    assert "changed the retention of the organisation" in page
