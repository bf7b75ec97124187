"""A command of a new noun: ``taximeter labels create NAME``, here and on a service elsewhere."""

from tests.trails.copies import Copy, Trail

NOUN = '''"""Labels: rows of ``labels``."""

import sqlite3
from dataclasses import dataclass

from runtime import clock
from store.control.audit import Activity
from store.control.names import check_name
from store.control.records import Id, Instant, Shared, Table

CREATED = Activity("label.create", "created the label")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    id: Id
    organization_id: Id
    name: str
    is_new: bool
    created_at: Instant


TABLE = Table("labels", Label, shared=Shared())


def create(db: sqlite3.Connection, organization_id: str, name: str) -> Label:
    label = Label(
        id=clock.new_id(),
        organization_id=organization_id,
        name=check_name(name, "a label"),
        is_new=True,
        created_at=clock.format_ms(clock.now()),
    )
    TABLE.insert(db, label)
    return label
'''
MIGRATION = '''

@migrations()
def m099_labels(db: Database) -> None:
    """Keep labels."""
    db.execute(
        "create table labels (id text primary key, organization_id text not null, name text not null,"
        " is_new integer not null, created_at text not null)"
    )
'''
METHOD = '''
    def create_label(self, caller: Caller, name: str) -> Label:
        """Create a label. Raises InvalidInputError."""
        with audited(self._control, caller) as (db, note):
            label = labels.create(db, caller.organization_id, name)
            note(labels.CREATED, label.id, {"name": label.name})
            return label
'''
OPERATION = '''"""The operation on labels, and its models."""

from http import HTTPStatus

from store.json_models import Instant, Name, RequestModel, ResponseModel
from manage.api.operation import Context, operation


class NewLabel(RequestModel):
    name: Name


class Label(ResponseModel):
    id: str
    name: str
    is_new: bool
    created_at: Instant


@operation(
    "POST",
    "/labels",
    name="createLabel",
    summary="Create a label.",
    status=HTTPStatus.CREATED,
)
def create_label(context: Context[NewLabel]) -> Label:
    return Label.of(context.management.create_label(context.caller, context.request.name))
'''
COMMAND = '''"""``taximeter labels create``, here or on a remote service."""

import click

from manage.api import label_operations as operations
from manage.cli.service_command import Service, service_command
from runtime.safe_text import terminal_line


@click.group()
def labels() -> None:
    """Manage labels.

    \\b
    Examples:
      taximeter labels create red
    """


@labels.command("create")
@click.argument("name")
@service_command
def create_label(service: Service, name: str) -> None:
    """Create a label.

    \\b
    Examples:
      taximeter labels create red
    """
    created = service.call(operations.create_label, name=name)
    service.print(created, f"Created the label {terminal_line(created.name)}.")
'''
CHECK = """
import json

from click.testing import CliRunner

from extensions.cluster.shared_rows import read_rows
from manage.cli.main import cli
from store.control import activity_log
from store.control.database import ControlDatabase
from tests.upstream import Upstream, answer

CREATED = {"id": "1", "name": "far", "is_new": True, "created_at": "2026-01-01T00:00:00.000Z"}


def test_a_label_is_created_here(run, data_dir):
    assert run("labels", "create", "near").stdout == "Created the label near.\\n"
    assert run("labels", "create", "").exit_code == 1
    with ControlDatabase(data_dir / "control.db") as control, control.reading() as db:
        organization = control.get_local_organization()
        entry = activity_log.read(db, organization.id)[0]
        assert (entry.activity, entry.details["name"]) == ("created the label", "near")
        assert any(key.startswith("labels:") for key in read_rows(db))


def test_a_label_is_created_elsewhere(monkeypatch):
    monkeypatch.setenv("TAXIMETER_API_KEY", "sk_" + "k" * 43)
    with Upstream() as service:
        service.otherwise = answer(201, json.dumps(CREATED).encode())
        done = CliRunner().invoke(cli, ["labels", "create", "far", "--base-url", service.url])
    assert done.stdout == "Created the label far.\\n", done.output
"""


def walk(copy: Copy) -> None:
    copy.create("store/control/labels.py", NOUN)
    copy.append("store/control/schema.py", MIGRATION)
    copy.insert(
        "store/control/activity_log.py",
        "    labels,\n",
        before="    people,\n    retention,\n    sessions,\n    sign_in_links,\n)\nfrom",
    )
    copy.insert(
        "store/control/activity_log.py",
        "    labels,\n",
        before="    people,\n    retention,\n    sessions,\n    sign_in_links,\n)\nACTIVITIES",
    )
    copy.insert(
        "store/control/shared.py",
        "from store.control import labels\n",
        before="from store.control.records",
    )
    copy.insert("store/control/shared.py", "    labels.TABLE,\n", after="    invitations.TABLE,\n")
    copy.insert(
        "store/control/management.py",
        "from store.control import labels\nfrom store.control.labels import Label\n",
        before="from store.control.api_keys import ApiKey\n",
    )
    copy.insert(
        "store/control/management.py",
        METHOD,
        before="\n    # -- members ---",
    )
    copy.create("manage/api/label_operations.py", OPERATION)
    copy.insert(
        "manage/api/operations.py", "    label_operations,\n", after="    key_operations,\n"
    )
    copy.insert(
        "manage/api/operations.py",
        "    *list_declared(label_operations),\n",
        after="    *list_declared(key_operations),\n",
    )
    copy.create("manage/cli/label_commands.py", COMMAND)
    copy.insert(
        "manage/cli/main.py",
        '    "labels": "manage.cli.label_commands",\n',
        before='    "prune":',
    )


TRAIL = Trail(
    heading="Add a command that works locally and remotely",
    walk=walk,
    choices=("runtime/errors.py",),
    checks={"tests/manage/test_walked_command.py": CHECK},
    tests=(
        "tests/store/control/test_audit.py",
        "tests/store/control/test_shared.py",
        "tests/manage/api/test_openapi.py",
        "tests/manage/api/test_reading_calls.py",
    ),
)
