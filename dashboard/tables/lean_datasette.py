"""Datasette, imported without unneeded parts that take long. Import it from this module only.

Its names are for other modules, so pyproject.toml allows them to be unused here, and below code.
"""

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import datasette
import datasette.utils.sqlite
import datasette.vendored
from pluggy import HookimplMarker

from runtime import patches
from runtime.patches import Patch

_FOLDER = Path(datasette.__file__).parent

# The list of all patches, which these begin, is in ``datasette_patches.py``.
BEFORE_IMPORT: tuple[Patch[None], ...] = (
    Patch(
        owner=datasette.vendored,
        name="pint",
        reason="Datasette has units for columns, and reads the definitions of all there are when it is"
        " imported, which takes longer than all else. Our metadata names no unit.",
        contract_test="test_it_still_reads_the_definitions_of_units_at_its_import",
        guards=_FOLDER / "views" / "base.py",
        digest="2166898e5fcce764",
        replace=lambda _original, _given: SimpleNamespace(UnitRegistry=lambda: None),
    ),
    Patch(
        owner=datasette.utils,
        name="detect_json1",
        reason="A database is opened at the import, for each page, and left to the garbage collector; a"
        " query process may open none but traces. Every SQLite that Python 3.12 runs with has JSON.",
        contract_test="test_it_still_opens_a_database_to_find_out_what_sqlite_can",
        digest="d2f7dd9a9893e060",
        replace=lambda _original, _given: lambda _connection=None: True,
    ),
    Patch(
        owner=datasette.utils.sqlite,
        name="_sqlite_version",
        reason="As for detect_json1.",
        contract_test="test_it_still_opens_a_database_to_find_out_what_sqlite_can",
        digest="f7cbf636159352af",
        replace=lambda _original, _given: lambda: sqlite3.sqlite_version_info,
    ),
)

patches.apply(BEFORE_IMPORT, None)

import datasette.blob_renderer
import datasette.handle_exception
import datasette.views.base
import datasette.views.row
import datasette.views.table
from datasette.app import Datasette
from datasette.database import Database, QueryInterrupted, Results
from datasette.plugins import pm
from datasette.utils import (
    escape_sqlite,
    format_bytes,
    is_url,
    path_from_row_pks,
    path_with_replaced_args,
    tilde_decode,
    tilde_encode,
    to_css_class,
    truncate_url,
)
from datasette.utils.asgi import (
    AsgiStream,
    BadRequest,
    Base400,
    Request,
    Response,
)
from datasette.views.base import DatasetteError, DataView
from datasette.views.database import DatabaseView, QueryView
from datasette.views.row import RowView
from datasette.views.table import TableView, display_columns_and_rows

hookimpl: HookimplMarker = datasette.hookimpl
VERSION: str = datasette.__version__
