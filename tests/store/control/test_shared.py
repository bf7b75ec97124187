"""Every table of ``control.db`` is shared with other machines of the service, or has a reason not to be."""

from importlib import import_module
from pkgutil import iter_modules

import store.control
from store.control import shared
from store.control.database import ControlDatabase
from store.control.records import Table
from store.database import list_columns

STAY = {
    "users",  # only the machine with the people signs them in
    "memberships",
    "sign_in_links",
    "sessions",
    "audit_log",
    "budget_webhooks",  # their secrets sign what that machine sends
    "budget_alerts",
    "alerts",  # reported to the node that sends them
    "alert_deliveries",
    "budget_deliveries",
    "retention_runs",  # each machine applies the rules to its own calls
    "erasures",  # orders go to the copies they concern, and end there
    "erasure_copies",
}


def test_every_table_is_shared_or_stays(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control, control.reading() as db:
        found = {
            name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")
        }
    names = {name for name in found if not name.startswith(("sqlite_", "_"))}
    shared_names = {table.name for table in shared.TABLES}
    assert not shared_names & STAY
    assert names == shared_names | STAY, "say Shared() where other machines need a table"


def test_the_columns_that_are_shared_are_in_the_database(tmp_path):
    with ControlDatabase(tmp_path / "control.db") as control, control.reading() as db:
        for table in shared.TABLES:
            assert set(table.list_shared()) <= list_columns(db, table.name)


def test_a_table_that_is_declared_as_shared_is_told():
    declared = {
        value.name
        for found in iter_modules(store.control.__path__)
        for value in vars(import_module(f"store.control.{found.name}")).values()
        if isinstance(value, Table) and value.shared is not None
    }
    assert declared == {table.name for table in shared.TABLES}
