"""The help of all commands, and their errors for what is mistyped."""

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from manage.cli.main import cli
from manage.cli.parameters import Age, Amount, DaysOrOff, PartOfCalls, Shares, Size, Whole
from manage.cli.periods import Day, Instant
from tests.docs import walk_commands

WIDTH = 80


def walk_groups(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from walk_groups(command, (*path, name))


GROUPS = dict(walk_groups())
COMMANDS = {path[1:]: command for path, command in walk_commands()}
FREE_TEXT = (type(click.STRING), click.Path, type(click.UNPROCESSED))
TYPED = [
    (path, parameter)
    for path, command in COMMANDS.items()
    for parameter in command.params
    if not isinstance(parameter.type, (click.types.BoolParamType, *FREE_TEXT))
]


def run(*arguments):
    return CliRunner().invoke(cli, arguments)


def make_context(command):
    """The context of a terminal. A command remembers the names of its option for help from its first one."""
    settings = cli.context_settings
    return click.Context(command, info_name="taximeter", terminal_width=WIDTH, **settings)


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_summaries_are_whole_sentences(path):
    context = make_context(GROUPS[path])
    listed = context.get_help().partition("Commands:\n")[2].splitlines()
    assert len(listed) == len(GROUPS[path].list_commands(context))
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_every_command_is_listed_with_its_own_summary(path):
    context, group = make_context(GROUPS[path]), GROUPS[path]
    listed = context.get_help().partition("Commands:\n")[2].splitlines()
    for name, line in zip(group.list_commands(context), listed, strict=True):
        command = group.get_command(context, name)
        assert command is not None
        assert line.split(maxsplit=1) == [name, command.get_short_help_str(WIDTH)]


def test_the_first_page_of_help_fits():
    text = make_context(cli).get_help()
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_names_no_limits_that_are_none_and_has_room_for_its_remarks(path):
    text = make_context(COMMANDS[path]).get_help()
    assert "None]" not in text
    remarked = [line for line in text.splitlines() if re.match(r" +taximeter .*\S  +\S", line)]
    assert [line for line in remarked if len(line) > WIDTH] == []


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_a_mistyped_command_is_suggested(path):
    names = GROUPS[path].list_commands(click.Context(GROUPS[path]))
    for name in (each for each in names if len(each) > 2):
        result = run(*path, f"{name[:-2]}{name[-1]}{name[-2]}")
        assert result.exit_code == 2
        assert repr(name) in result.stderr


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_mistyped_option_is_suggested(path):
    result = run(*path, "--hlep")
    assert result.exit_code == 2
    assert "'--help'" in result.stderr


@pytest.mark.parametrize(
    ("path", "parameter"),
    TYPED,
    ids=lambda each: each.name if isinstance(each, click.Parameter) else " ".join(each),
)
def test_a_wrong_value_is_an_error_that_says_what_to_write(path, parameter):
    for value in ("five", "nan", "\x1b[2J"):
        assert_wrong(path, parameter, value)


def assert_wrong(path, parameter, value):
    is_option = isinstance(parameter, click.Option)
    given = (parameter.opts[-1], value) if is_option else (*fill_before(path, parameter), value)
    result = run(*path, *given)
    assert result.exit_code == 2, result.output
    error = result.stderr.splitlines()[-1]
    assert error.isprintable()
    assert (parameter.opts[-1] if is_option else parameter.make_metavar(None)) in error
    if isinstance(parameter.type, click.Choice):
        assert ", ".join(parameter.type.choices) in error
    else:
        assert "such as " in error


def fill_before(path, parameter):
    """Return valid values for the arguments that stand before one."""
    arguments = [each for each in COMMANDS[path].params if isinstance(each, click.Argument)]
    before = arguments[: arguments.index(parameter)]
    return [each.type.choices[0] if isinstance(each.type, click.Choice) else "x" for each in before]


def test_every_type_of_number_is_tried():
    assert {type(parameter.type) for _, parameter in TYPED if not isinstance(parameter.type, click.Choice)} == {
        Age, Amount, Day, DaysOrOff, Instant, PartOfCalls, Shares, Size, Whole,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("usge",), "No such command 'usge'. (Did you mean one of: 'usage', 'users'?)"),
        (("endpoints", "lst"), "Did you mean 'list'?"),
        (("usage", "--by", "modle"), "'modle' is not one of day, model, endpoint"),
        (("usage", "--by", "modle"), "(did you mean 'model'?)"),
        (
            ("budgets", "set", "x", "--day", "five"),
            "Invalid value for '--day': 'five' is not an amount in dollars: write a number such as 50 or 12.50",
        ),
        (
            ("tail", "-n", "-1"),
            "'-1' is not a whole number of 0 or more: write a number such as 10",
        ),
        (
            ("search", "x", "-n", "101"),
            "'101' is not a whole number from 1 to 100: write a number such as 20",
        ),
        (("prune", "--larger-than", "9" * 400), "is not a size: write one such as 500MB or 1GB"),
    ],
)
def test_a_mistyped_word_is_one_sentence(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
