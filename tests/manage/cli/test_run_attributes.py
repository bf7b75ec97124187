"""Attributes of a run, by its options."""

import subprocess

import click
import pytest

from manage.cli.run_attributes import Attributes, Wishes, find_attributes, make_tag


@pytest.fixture
def folder(tmp_path):
    """A checkout on a branch, with an origin."""
    folder = tmp_path / "My Shop"
    for arguments in (
        (
            "init",
            "--quiet",
            "--initial-branch=Feature/One,two",
            folder,
        ),
        ("-C", folder, "remote", "add", "origin", "https://token@github.com/acme/shop.git"),
    ):
        subprocess.run(("git", *arguments), check=True, capture_output=True)  # noqa: S603, S607
    return folder


def wish(**changes):
    return Wishes(
        **{
            "user": None,
            "project": None,
            "has_no_project": False,
            "tags": (),
            "with_branch": False,
            "with_directory": False,
        }
        | changes
    )


def test_the_project_is_that_of_the_repository_and_nothing_else_is_named(folder):
    assert find_attributes(wish(), folder) == Attributes(user=None, project="acme/shop", tags=())
    assert not wish().is_stated


def test_another_project_or_none_can_be_named(folder, tmp_path):
    assert find_attributes(wish(project="other"), folder).project == "other"
    assert find_attributes(wish(has_no_project=True), folder).project is None
    assert find_attributes(wish(), tmp_path).project is None
    with pytest.raises(click.UsageError, match="either --project or --no-project"):
        find_attributes(wish(project="other", has_no_project=True), folder)


def test_branch_and_directory_are_tags_where_they_are_asked_for(folder, tmp_path):
    found = find_attributes(wish(tags=("Env:dev",), with_directory=True), folder)
    assert found.tags == ("directory:my-shop", "env:dev")
    assert find_attributes(wish(with_branch=True), folder).tags == ("branch:feature/one-two",)
    assert find_attributes(wish(with_branch=True), tmp_path).tags == ()


def test_the_options_say_who_and_what(folder):
    found = find_attributes(wish(user="ann@example.com", tags=("b", "a")), folder)
    assert found == Attributes(user="ann@example.com", project="acme/shop", tags=("a", "b"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"user": "two words"},
            "--user: a user has 1 to 64 letters, digits and . _ : @ / + -",
        ),
        ({"project": ""}, "--project: a project has 1 to 64 letters"),
        ({"tags": ("a,b",)}, "--tag: a tag has 1 to 40 letters, digits and . _ : @ / + -"),
        ({"tags": tuple("abcdefghijk")}, "--tag: a call has at most 10 tags"),
        ({"tags": ("user:x",)}, "--tag: a tag has 1 to 40"),
    ],
)
def test_what_breaks_a_rule_is_an_error_that_says_the_rule(folder, changes, message):
    with pytest.raises(click.UsageError) as refused:
        find_attributes(wish(**changes), folder)
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("branch", "tag"),
    [
        ("main", "branch:main"),
        ("feature/A b,c", "branch:feature/A-b-c"),
        ("é" * 3 + "x" * 60, "branch:-" + "x" * 32),
    ],
)
def test_a_branch_is_brought_within_the_rules(branch, tag):
    assert make_tag("branch", branch) == tag
