"""The list of our patches of Datasette.

Each is needed because stock Datasette would open other databases, print what visitors recorded, make
incomplete output look complete, or spend most of the time of a page on something that our pages do not
use. What a plugin hook can do is done by a hook (``trace_browser.py``). Patches of Datasette 0.65 are
applied to any version that ``pyproject.toml`` allows, so that a security release can be installed the
day it comes out. If a version changed the patched code, pages of tables may fail or look odd while all
else works, so the service goes on: its log names the change, and ``taximeter doctor`` a version that
fits.
"""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from dashboard.tables import lean_datasette, rows
from dashboard.tables.lean_datasette import (
    Database,
    Datasette,
    DataView,
    QueryView,
    Request,
    TableView,
    datasette,
)
from runtime import patches
from runtime.installing import DATASETTE_VERSIONS, command_for
from runtime.patches import Patch

_TEMPLATES = Path(datasette.__file__).parent / "templates"

logger = logging.getLogger(__name__)


class _Unfinished:
    """A replacement for ``sys`` in the module that streams CSV. For an error in the middle of a CSV,
    Datasette first uses ``sys.stderr``; here that raises the error again."""

    @property
    def stderr(self) -> NoReturn:
        error = sys.exception()
        raise RuntimeError("used outside of an except block") if error is None else error


class _HooksWithoutCells:
    """The plugin hooks without ``render_cell``, which no plugin implements."""

    def __init__(self, hooks: Any) -> None:
        self._hooks = hooks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def render_cell(self, **_cell: object) -> tuple[()]:
        return ()


REPLACED: tuple[Patch[Any], ...] = (
    *(
        Patch(
            owner=module,
            name="display_columns_and_rows",
            reason="Every value of every row is prepared for display and offered to plugins, also those"
            " that a page leaves out, which takes most of the time of a list of calls.",
            contract_test="test_it_still_offers_each_cell_to_plugins",
            digest="8ff744583ce0f483",
            replace=lambda _original, _given: rows.display,
        )
        for module in (datasette.views.table, datasette.views.row)
    ),
    Patch(
        owner=datasette.views.database,
        name="pm",
        reason="Plugins are asked for each cell of a result, which takes a sixth of the time of a long page.",
        contract_test="test_it_still_offers_each_cell_of_a_query_to_plugins",
        guards=QueryView.data,
        digest="473fe0ab9e53b565",
        replace=lambda original, _given: SimpleNamespace(hook=_HooksWithoutCells(original.hook)),
    ),
    Patch(
        owner=datasette.views.base,
        name="sys",
        reason="An error in the middle of a CSV is printed with its SQL, and written below the rows of a"
        " response that then looks complete.",
        contract_test="test_it_still_ends_a_csv_that_failed_as_if_it_were_complete",
        guards=DataView.as_csv,
        digest="265d0c95ff5c16c1",
        replace=lambda _original, _given: _Unfinished(),
    ),
)

# A subclass or a file of ours takes the place of each of these.
OVERRIDDEN: tuple[Patch[Any], ...] = (
    *(
        Patch(
            owner=Database,
            name=name,
            reason="A connection is kept for each name in a variable of the thread, and every one for"
            " ever: one organisation would read another's file.",
            contract_test="test_it_still_keeps_connections_by_the_name_of_a_database",
            digest=digest,
            replace=None,  # trace_file.TraceFile
        )
        for name, digest in (("connect", "7801ab78bf077cf4"), ("execute_fn", "5ac6a83c2679cb59"))
    ),
    Patch(
        owner=Database,
        name="execute",
        reason="A result is bounded by rows and not by bytes, and the SQL of an error is printed.",
        contract_test="test_it_still_prints_the_sql_of_an_error",
        digest="dd930a5ca092c9c5",
        replace=None,  # trace_file.TraceFile
    ),
    Patch(
        owner=TableView,
        name="_data_traced",
        reason="A page is sorted by one column alone, so rows that are equal there are shown twice or"
        " never. The query for it is rewritten, as it is written here.",
        contract_test="test_it_still_sorts_a_page_by_one_column_alone",
        digest="277ef52a560db4bb",
        replace=None,  # paging.PagedFile
    ),
    Patch(
        owner=DataView,
        name="get",
        reason="A list cannot be downloaded as JSON Lines with all its rows.",
        contract_test="test_it_still_knows_no_json_lines",
        digest="a9907a5f1c7b438e",
        replace=None,  # downloads.Exporting
    ),
    Patch(
        owner=DataView,
        name="as_csv",
        reason="A query with an error makes a CSV without rows, and a spreadsheet executes cells.",
        contract_test="test_it_still_makes_a_csv_of_a_query_with_an_error",
        digest="265d0c95ff5c16c1",
        replace=None,  # downloads.Exporting
    ),
    Patch(
        owner=Request,
        name="args",
        reason="The arguments are parsed each time that one of them is looked at, dozens of times for a"
        " page. For a long query that takes most of the time limit.",
        contract_test="test_it_still_parses_the_arguments_each_time",
        digest="def47b21e3e86928",
        replace=None,  # downloads.ParsedRequest
    ),
    Patch(
        owner=Datasette,
        name="permission_allowed",
        reason="Rules are looked for in a copy of all metadata, several times for a page, though who may"
        " read was decided by the choice of the instance.",
        contract_test="test_it_still_looks_for_rules_in_all_metadata",
        digest="17b3eaad6f10651a",
        replace=None,  # trace_browser.TraceBrowser
    ),
    Patch(
        owner=Datasette,
        name="refresh_schemas",
        reason="Before each request a database of all schemas is brought up to date by a thread.",
        contract_test="test_it_still_keeps_a_database_of_schemas",
        digest="1098309fa46e2c41",
        replace=None,  # trace_browser.TraceBrowser
    ),
    Patch(
        owner=Datasette,
        name="render_template",
        reason="Every call and every filter in a template is awaited, which takes most of the time of a"
        " long page.",
        contract_test="test_it_still_awaits_what_templates_call",
        digest="68d6123bd1f3995b",
        replace=None,  # environment.share_environment
    ),
    Patch(
        owner=datasette.handle_exception,
        name="handle_exception",
        reason="Every exception is printed, with rich installed with the values of all variables, beside"
        " what another plugin makes of it.",
        contract_test="test_it_still_prints_exceptions_whatever_plugins_respond",
        digest="45b9c60d62bbdee3",
        replace=None,  # trace_browser.Hooks
    ),
    Patch(
        owner=datasette.blob_renderer,
        name="render_blob",
        reason="It fails for a number, but only after the response has begun.",
        contract_test="test_it_still_responds_with_a_number_as_if_it_were_bytes",
        digest="22af63a1fb0b3ca9",
        replace=None,  # trace_browser.Hooks
    ),
    *(
        Patch(
            owner=datasette,
            name=f"templates/{name}.html",
            reason="It has scripts in it, which the Content-Security-Policy forbids, or another look.",
            contract_test="test_our_templates_ask_for_nothing_but_what_it_still_gives_its_own",
            guards=_TEMPLATES / f"{name}.html",
            digest=digest,
            replace=None,  # dashboard/tables/templates
        )
        for name, digest in {
            "_codemirror": "adc9b239432e853b",
            "_codemirror_foot": "57f0251b9c1fbe03",
            "_facet_results": "622d3c764aa14f17",
            "_table": "f75a8872713f28fd",
            "base": "bb22df33caea147e",
            "database": "4fd5e97823bb5380",
            "error": "c2115d1fdbff1a48",
            "query": "bc3559df0e209da9",
            "row": "ff5dde41541c39dd",
            "table": "81cec4b0f7948bf0",
        }.items()
    ),
)

EVERY: tuple[Patch[Any], ...] = (*lean_datasette.BEFORE_IMPORT, *REPLACED, *OVERRIDDEN)


def apply() -> None:
    """Apply the patches of ``REPLACED``; those of ``BEFORE_IMPORT`` have been applied already."""
    patches.apply(REPLACED, None)


def report_changes() -> None:
    """Log the patched parts of Datasette that the installed version has changed."""
    if lean_datasette.VERSION in DATASETTE_VERSIONS:
        return
    changed = patches.find_changed(EVERY)
    if changed:
        logger.warning(
            "Datasette %s has changed what the pages of tables depend on (%s), so they may fail."
            " This command installs one that they work with: %s",
            lean_datasette.VERSION,
            ", ".join(changed),
            command_for(f"datasette=={DATASETTE_VERSIONS[-1]}"),
        )
