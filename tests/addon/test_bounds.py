"""The table of bounds in ``docs/internals/addon.md``."""

import importlib
import re

from runtime.settings import list_settings
from tests import ROOT
from tests.test_architecture import read_table

COLUMNS = ["bound", "value", "where", "beyond it"]


def test_the_table_of_bounds_names_constants_and_settings_that_exist():
    rows = read_table((ROOT / "docs" / "internals" / "addon.md").read_text(), COLUMNS)
    settings = {setting.variable for setting in list_settings()}
    for _, *row in rows:
        paths = re.findall(r"`([a-z0-9_/]+)\.py`", row[1])
        modules = [importlib.import_module(f"addon.{path.replace('/', '.')}") for path in paths]
        for name in re.findall(r"`([A-Z_]+)`", " ".join(row)):
            assert name in settings or any(hasattr(each, name) for each in modules), name
