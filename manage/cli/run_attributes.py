"""The options of ``taximeter run`` for attributes of its calls: user, project and tags."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from manage.api import run_operations
from manage.api.run_operations import BegunRun
from manage.cli.backend import Backend
from manage.cli.checkout import find_branch, find_project
from manage.cli.console import BackendError, Command
from metering import attribution
from runtime.errors import ControlError, InvalidInputError
from runtime.safe_text import terminal_line
from store.control import run_attributes

BRANCH, DIRECTORY = "branch", "directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The values of the options. A ``project`` of None is taken from the repository."""

    user: str | None
    project: str | None
    has_no_project: bool
    tags: Sequence[str]
    with_branch: bool
    with_directory: bool

    @property
    def is_stated(self) -> bool:
        """Return whether an option asks for an attribute, rather than only defaults."""
        return bool(
            self.user or self.project or self.tags or self.with_branch or self.with_directory
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The validated attributes of a run."""

    user: str | None
    project: str | None
    tags: Sequence[str]


def attribute_options(command: Command) -> Command:
    """Add the options whose values are the fields of ``Wishes``."""
    options = (
        click.option("--user", metavar="NAME", help="For whom the calls are made."),
        click.option(
            "--project",
            metavar="NAME",
            help="For what project.  [default: owner/name of the repository's origin]",
        ),
        click.option("--no-project", "has_no_project", is_flag=True, help="Name no project."),
        click.option(
            "--tag",
            "tags",
            metavar="TAG",
            multiple=True,
            help="A tag, such as nightly or env:dev. Can be given several times.",
        ),
        click.option(
            "--with-branch", is_flag=True, help="Add the git branch as a tag, as in branch:main."
        ),
        click.option(
            "--with-directory",
            is_flag=True,
            help="Add the name of the current folder as a tag, as in directory:shop.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def find_attributes(wishes: Wishes, folder: Path) -> Attributes:
    """Return the attributes of a run in ``folder``. Raises UsageError if one breaks a rule, and says
    which."""
    if wishes.project is not None and wishes.has_no_project:
        raise click.UsageError("give either --project or --no-project")
    project = wishes.project
    if project is None and not wishes.has_no_project:
        project = find_project(folder)
    tags = list(wishes.tags)
    if wishes.with_branch and (branch := find_branch(folder)):
        tags.append(make_tag(BRANCH, branch))
    if wishes.with_directory and folder.name:
        tags.append(make_tag(DIRECTORY, folder.name))
    try:
        found = run_attributes.check(wishes.user, project, tags)
    except InvalidInputError as error:
        option = "--tag" if error.field == "tags" else f"--{error.field}"
        raise click.UsageError(f"{option}: {terminal_line(str(error))}") from error
    return Attributes(user=found.user, project=found.project, tags=found.tags)


def make_tag(key: str, value: str) -> str:
    """Return the tag ``key:value``, with invalid characters replaced by hyphens, and cut to the limit."""
    return attribution.make_valid(f"{key}:{value}")[: attribution.MAX_TAG_CHARS]


def begin_run(
    backend: Backend,
    run_id: str,
    slug: str,
    attributes: Attributes,
    print_line: Callable[[str], None],
    *,
    is_stated: bool,
) -> BegunRun | None:
    """Store the attributes of a run and return them as stored, or None if the service refuses.

    The client starts all the same; with ``is_stated`` (the user asked for attributes) a message is
    printed."""
    try:
        begun = backend.call(
            run_operations.begin_run,
            run_id,
            endpoint=slug,
            user=attributes.user,
            project=attributes.project,
            tags=list(attributes.tags),
        )
    except (ControlError, BackendError) as error:
        if is_stated:
            print_line(
                f"user, project and tags of this run are not stored: {terminal_line(str(error))}"
            )
        return None
    if is_stated and not (begun.user or begun.project or begun.tags):
        print_line(
            f"user, project and tags of this run are not stored: the endpoint {slug} keeps metadata"
            " only. What the client says in headers is kept (x-taximeter-user and others)."
        )
    return begun
