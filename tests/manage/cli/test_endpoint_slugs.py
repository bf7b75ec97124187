"""Slugs that nobody has, in every command that takes one."""

import click
import pytest

from tests.docs import walk_commands
from tests.store.traffic import make_entry

MORE = {
    ("budgets", "set"): ("--day", "1"),
    ("endpoints", "update"): ("--name", "x"),
    ("erase",): ("--yes",),
    ("import", "batch"): ("msgbatch_1",),
    ("retention", "set"): ("--text-days", "1"),
    ("search",): ("word",),
    ("tail",): ("--no-follow",),
}
# A new slug, the endpoint of a client that runs, and that of a call through a running service.
OTHERS = {("endpoints", "create"), ("run",), ("doctor",)}


def find_slugs():
    """Yield the arguments of each command that names an endpoint, without its name."""
    for (_, *words), command in walk_commands():
        path = tuple(words)
        for parameter in command.params:
            if {"--slug", "--endpoint", "endpoint"} & {*parameter.opts} and path not in OTHERS:
                option = parameter.opts[-1:] if isinstance(parameter, click.Option) else ()
                yield pytest.param([*path, *MORE.get(path, ()), *option], id=" ".join(path))


@pytest.mark.parametrize("arguments", find_slugs())
def test_a_slug_that_nobody_has_is_an_error(run, arguments):
    result = run(*arguments, "defualt")
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr == (
        "Error: there is no proxy endpoint 'defualt' (did you mean 'default'?);"
        " `taximeter endpoints list` shows them\n"
    )


def test_calls_of_a_deleted_endpoint_are_shown(run, traces):
    traces.insert([make_entry(slug="gone")])
    assert "gone" in run("tail", "--no-follow", "--slug", "gone").stdout
    assert "gone" in run("export", "--slug", "gone").stdout
    assert run("search", "x", "--slug", "gone").exit_code == 0
    assert "1 call would" in run("erase", "--endpoint", "gone", "--dry-run").stdout


def test_one_right_slug_does_not_excuse_another(run, tmp_path):
    target = tmp_path / "calls.jsonl"
    result = run("export", "--slug", "default", "--slug", "nope", "-o", str(target))
    assert result.exit_code == 1
    assert "'nope'" in result.stderr
    assert not target.exists()


def test_the_slug_of_doctor_is_that_of_the_live_check(run):
    result = run("doctor", "--slug", "nope")
    assert (result.exit_code, "add --live" in result.stderr) == (2, True)


def test_an_endpoint_is_known_before_its_first_call(run):
    assert run("tail", "--no-follow", "--slug", "default").exit_code == 0
    assert run("export", "--slug", "default").stdout == ""
