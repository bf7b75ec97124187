"""Attributes of a run, which are stored once with it."""

from datetime import timedelta

import pytest

from metering.attribution import NOTHING, Attribution
from runtime.errors import ConflictError, InvalidInputError, NotFoundError
from runtime.setting_values import parse_upstream
from store.control import run_attributes
from store.control.management import Management


@pytest.fixture
def manage(management, people):
    management.create_endpoint(people.ann, "shop", "shop")
    management.create_endpoint(people.ann, "private", "private", metadata_only=True)
    return management


def begin(
    manage, caller, run_id="r1", slug="shop", user="ann", project="acme/shop", tags=("b", "A")
):
    return manage.runs.begin(caller, run_id, slug, user, project, tags)


def test_attributes_are_stored_once_as_those_of_headers_are(manage, people):
    begun = begin(manage, people.ann)
    assert (begun.user, begun.project, begun.tags) == ("ann", "acme/shop", ("a", "b"))
    stored = Attribution(user="ann", project="acme/shop", tags=("a", "b"))
    assert manage.runs.find(people.bob, "r1") == stored
    with pytest.raises(ConflictError, match="choose another id"):
        begin(manage, people.bob, user="bob")
    assert manage.runs.find(people.ann, "r1") == stored


def test_runs_are_those_of_one_organisation(manage, people):
    begin(manage, people.ann)
    assert manage.runs.find(people.cid, "r1") == NOTHING
    with pytest.raises(NotFoundError):
        begin(manage, people.cid, slug="shop")


def test_nothing_is_stored_for_an_endpoint_that_keeps_metadata_only(manage, people):
    begun = begin(manage, people.ann, slug="private")
    assert (begun.user, begun.project, begun.tags) == (None, None, ())
    assert manage.runs.find(people.ann, "r1") == NOTHING


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("user", "two words", "a user has 1 to 64 letters, digits and"),
        ("user", "", "a user has 1 to 64"),
        ("project", "x" * 65, "a project has 1 to 64"),
        ("tags", ["a", "b c"], "a tag has 1 to 40 letters"),
        ("tags", ["x" * 41], "a tag has 1 to 40"),
        ("tags", ["a,b"], "a tag has 1 to 40"),
        ("tags", ["Project:x"], "not the key user or project"),
        ("tags", [f"t{number}" for number in range(11)], "at most 10 tags, and these are 11"),
        ("user", "sk-ant-api03-x", "looks like a credential"),
        ("tags", ["key:sk-ant-api03-x"], "looks like a credential"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_rule(manage, people, field, value, rule):
    with pytest.raises(InvalidInputError, match=rule) as refused:
        begin(manage, people.ann, **{field: value})
    assert refused.value.field == field
    assert manage.runs.find(people.ann, "r1") == NOTHING


def test_what_is_not_a_run_id_is_not_found(manage, people):
    with pytest.raises(NotFoundError):
        begin(manage, people.ann, run_id="a/b")


def test_the_newest_runs_are_kept_for_some_time(manage, people, now, monkeypatch, control):
    monkeypatch.setattr(run_attributes, "MAX_RUNS", 2)
    for number in range(3):
        now.at += timedelta(minutes=1)
        begin(manage, people.ann, f"r{number}")
    assert [manage.runs.find(people.ann, f"r{number}").user for number in range(3)] == [
        None, "ann", "ann",
    ]  # fmt: skip
    now.at += run_attributes.KEPT + timedelta(seconds=1)
    begin(manage, people.ann, "r3")
    with control.reading() as db:
        assert [row[0] for row in db.execute("select run_id from run_attributes")] == ["r3"]


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ("https://api.anthropic.com", True),
        ("https://api.anthropic.com/", True),
        ("https://api.anthropic.com:443", True),
        ("http://api.anthropic.com", False),
        ("https://api.anthropic.com/prefix", False),
        ("https://api.anthropic.com.evil.example", False),
        ("https://gateway.example", False),
    ],
)
def test_a_run_knows_whether_its_calls_go_to_the_vendor(
    control, tmp_path, people, upstream, expected
):
    found = {None: parse_upstream(upstream), "eu": parse_upstream("https://eu.example")}
    management = Management(control, tmp_path, upstreams=["eu"], find_upstream=found.get)
    management.create_endpoint(people.ann, "shop", "shop")
    management.create_endpoint(people.ann, "eu", "eu", upstream="eu")
    assert begin(management, people.ann).is_first_party is expected
    assert not begin(management, people.ann, "r2", "eu").is_first_party
