"""Hints name commands as people call them: in a checkout by ``run.sh``."""

import pytest

from manage.cli.program import CALLED_AS, without_name


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("endpoints", "delete", "nothing"), "`./run.sh endpoints list` shows"),
        (("keys", "list"), "`./run.sh keys create` adds one"),
        (("users", "create", "--email", "a@example.org"), "`./run.sh users link a@example.org`"),
        (("usage", "--by", "hour"), "Usage: ./run.sh usage [OPTIONS]"),
        (("doctor",), "`./run.sh up` starts it"),
    ],
)
def test_hints_name_the_script_that_called_the_program(run, monkeypatch, arguments, hint):
    monkeypatch.setenv(CALLED_AS, "./run.sh")
    done = run(*arguments)
    assert hint in done.output
    assert "`taximeter" not in done.output


def test_a_client_does_not_get_the_name_which_is_that_of_another_program():
    assert without_name({CALLED_AS: "./run.sh", "PATH": "/bin"}) == {"PATH": "/bin"}
