"""The table of bounds in ``addon/__init__.py``."""

import importlib
import re

import addon
from runtime.settings import list_settings

ROW = re.compile(r"\| [^|]+ \| (?P<bounds>[^|]+) \| ``(?P<module>[a-z0-9_.]+)`` \|")


def test_the_table_of_bounds_names_constants_and_settings_that_exist():
    assert addon.__doc__ is not None
    rows = [row for row in map(ROW.fullmatch, addon.__doc__.splitlines()) if row]
    assert len(rows) == addon.__doc__.count("\n|") - 2  # but for the head of the table
    settings = {setting.variable for setting in list_settings()}
    for row in rows:
        module = importlib.import_module(f"addon.{row['module']}")
        for bound in row["bounds"].split(", "):
            assert bound in settings or hasattr(module, bound.strip("`")), row[0]
