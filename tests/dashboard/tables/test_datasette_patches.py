"""The list of patches of Datasette, and what it still does without each of them."""

import ast
import inspect
import io
import re
import sqlite3
import threading
import tomllib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import datasette
import pytest
from datasette import hookimpl
from datasette.app import Datasette
from datasette.blob_renderer import render_blob
from datasette.database import Database
from datasette.handle_exception import handle_exception
from datasette.plugins import pm
from datasette.utils.asgi import Request
from datasette.views import base
from datasette.views.base import DataView
from datasette.views.database import DatabaseView
from datasette.views.table import TableView
from jinja2 import meta

from dashboard.tables import datasette_patches, lean_datasette, paging
from dashboard.tables.environment import page_templates
from dashboard.tables.trace_browser import TraceBrowser
from runtime.installing import DATASETTE_VERSIONS
from tests import ROOT
from tests.dashboard.browsing import OURS, record

EVERY = pytest.mark.parametrize("patch", datasette_patches.EVERY, ids=str)
REPLACED = {
    str(patch): patch for patch in (*lean_datasette.BEFORE_IMPORT, *datasette_patches.REPLACED)
}
# What our views add, what Datasette gives its own without a use, and what our templates set themselves.
ADDED = {"first_url", "previous_url", "rows"} | {
    "card",
    "heading",
    "is_filtered",
    "order",
    "pieces",
    "shown",
}


@EVERY
def test_a_patch_is_for_what_datasette_has(patch):
    assert patch.fits, (
        f"Datasette has changed {patch}: read what changed, run {patch.contract_test}, and then set the"
        " digest of its patch, and DATASETTE_VERSIONS"
    )


@EVERY
def test_a_patch_names_its_contract_test_and_its_reason(patch):
    functions = [
        each.name
        for each in ast.parse(Path(__file__).read_text()).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert patch.contract_test in functions
    assert "still" in patch.contract_test
    assert patch.reason.endswith(".")


def test_each_replacement_is_in_its_place():
    for patch in REPLACED.values():
        assert getattr(patch.owner, patch.name) is not patch.original, str(patch)


def test_what_is_installed_is_a_version_that_the_patches_are_known_to_fit():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [asked] = [text for text in project["dependencies"] if text.startswith("datasette")]
    assert asked == f"datasette>={DATASETTE_VERSIONS[0]},<1"
    [locked] = re.findall(r"^datasette==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    assert locked in DATASETTE_VERSIONS


def test_another_version_that_changed_something_is_logged_and_the_service_goes_on(
    monkeypatch, caplog
):
    datasette_patches.report_changes()
    monkeypatch.setattr(lean_datasette, "VERSION", "0.65.9")
    datasette_patches.report_changes()
    assert caplog.messages == []
    [execute] = [each for each in datasette_patches.EVERY if str(each) == "Database.execute"]
    monkeypatch.setattr(datasette_patches, "EVERY", [replace(execute, digest="0" * 16)])
    datasette_patches.report_changes()
    [message] = caplog.messages
    assert "Datasette 0.65.9 has changed" in message
    assert "(Database.execute)" in message
    assert f"datasette=={DATASETTE_VERSIONS[-1]}" in message


@pytest.fixture
def browser(tmp_path):
    path = tmp_path / "traces.db"
    record(path, OURS)
    browser = TraceBrowser(path, threading.Event())
    yield browser
    browser.executor.submit(browser.file.close)
    browser.executor.shutdown()


def make_request(path, **url_vars):
    return Request.fake(path, url_vars={"database": "traces", "format": None, **url_vars})


def test_it_still_reads_the_definitions_of_units_at_its_import():
    assert "\nureg = pint.UnitRegistry()\n" in inspect.getsource(base)
    assert base.ureg is None, "the stand-in makes nothing"


@pytest.mark.parametrize(
    "name", ["datasette.utils.detect_json1", "datasette.utils.sqlite._sqlite_version"]
)
def test_it_still_opens_a_database_to_find_out_what_sqlite_can(name, monkeypatch):
    opened, connect = [], sqlite3.connect

    def keep(*arguments, **options):
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", keep)
    patch = REPLACED[name]
    assert patch.original() == getattr(patch.owner, patch.name)()
    [connection] = opened
    connection.close()


async def test_it_still_offers_each_cell_to_plugins(browser, monkeypatch):
    offered = []

    def render_cell(*, column, **_cell):
        offered.append(column)
        return ()

    hook = SimpleNamespace(render_cell=render_cell)
    monkeypatch.setattr(datasette.views.table, "pm", SimpleNamespace(hook=hook))
    results = await browser.file.execute("select id, model from usage limit 2")
    await lean_datasette.display_columns_and_rows(
        browser, "traces", "usage", results.description, results.rows
    )
    assert offered == ["id", "model"] * 2


async def test_it_still_offers_each_cell_of_a_query_to_plugins(browser, monkeypatch):
    patch, offered = REPLACED["datasette.views.database.pm"], []
    monkeypatch.setattr(patch.owner, "pm", patch.original)

    class Plugin:
        @hookimpl
        def render_cell(self, column):
            offered.append(column)

    pm.register(Plugin(), "plugin")
    try:
        _, make_context, *_ = await DatabaseView(browser).data(
            make_request("/traces?sql=select+1+as+a")
        )
        await make_context()
    finally:
        pm.unregister(name="plugin")
    assert offered == ["a"]


async def test_it_still_ends_a_csv_that_failed_as_if_it_were_complete(browser, monkeypatch):
    class FailingView(DataView):  # type: ignore[misc]
        async def data(self, _request, _next=None, **_options):
            if _next:
                raise sqlite3.OperationalError("no such column: secret")
            return {"columns": ["id"], "rows": [[1]], "next": "1"}, None, None

    printed, written = SimpleNamespace(stderr=io.StringIO()), []

    class Output:
        async def write(self, text):
            written.append(text)

    request = make_request("/traces/usage.csv?_stream=1", table="usage")
    stream = await FailingView(browser).as_csv(request, "traces")
    monkeypatch.setattr(base, "sys", printed)
    await stream.stream_fn(Output())
    assert "no such column" in written[-1]
    assert "no such column" in printed.stderr.getvalue()


async def test_it_still_keeps_connections_by_the_name_of_a_database(tmp_path):
    paths = [tmp_path / f"{name}.db" for name in "ab"]
    for path in paths:
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"create table {path.stem} (id)")
    plain = Datasette(settings={"num_sql_threads": 1})
    found = []
    for path in paths:
        database = Database(plain, str(path), is_mutable=True)
        database.name = "traces"
        found.append(
            [row["name"] for row in await database.execute("select name from sqlite_master")]
        )
        assert path == paths[1] or len(database._all_file_connections) == 1
    plain.executor.shutdown()
    assert found == [["a"], ["a"]], "the second file is never opened"


async def test_it_still_prints_the_sql_of_an_error(browser, capsys):
    with pytest.raises(sqlite3.OperationalError):
        await Database.execute(browser.file, "select marker_of_a_visitor")
    assert "marker_of_a_visitor" in capsys.readouterr().err


async def test_it_still_sorts_a_page_by_one_column_alone(browser, monkeypatch):
    queries, execute = [], type(browser.file).execute

    async def note(file, sql, *arguments, **options):
        queries.append(sql)
        return await execute(file, sql, *arguments, **options)

    monkeypatch.setattr(type(browser.file), "execute", note)
    request = make_request("/traces/usage?_sort_desc=model&_size=2", table="usage")
    await TableView(browser).data(request)
    order = await paging.find_order(browser, request, "usage", ["id"])
    assert any(sql.endswith(f"order by {order.as_datasette_writes_it} limit 3") for sql in queries)


async def test_it_still_knows_no_json_lines(browser):
    request = make_request("/traces/usage.jsonl", table="usage", format="jsonl")
    request.scope["csrftoken"] = str
    await browser.invoke_startup()
    page = await TableView(browser).get(request)
    assert page.content_type.startswith("text/html")


async def test_it_still_makes_a_csv_of_a_query_with_an_error(browser):
    written = []

    class Output:
        async def write(self, text):
            written.append(text)

    request = make_request("/traces.csv?sql=select+nope", format="csv")
    stream = await DatabaseView(browser).as_csv(request, "traces")
    await stream.stream_fn(Output())
    assert "".join(written).strip() == ""


def test_it_still_parses_the_arguments_each_time():
    request = make_request("/traces?a=1")
    assert request.args is not request.args


async def test_it_still_looks_for_rules_in_all_metadata(browser, monkeypatch):
    read, metadata = [], browser.metadata

    def note(*arguments, **options):
        read.append(arguments)
        return metadata(*arguments, **options)

    monkeypatch.setattr(browser, "metadata", note)
    await Datasette.permission_allowed(browser, None, "view-database", "traces", default=True)
    assert read


async def test_it_still_keeps_a_database_of_schemas(browser):
    with pytest.raises(KeyError, match="_internal"):
        await Datasette.refresh_schemas(browser)


def test_it_still_awaits_what_templates_call(browser):
    assert Datasette().jinja_env.is_async
    assert not browser.jinja_env.is_async


async def test_it_still_prints_exceptions_whatever_plugins_respond(capsys):
    error = ValueError("marker of a visitor")
    try:
        raise error
    except ValueError:
        await handle_exception(Datasette(), make_request("/traces"), error)()
    assert "marker of a visitor" in capsys.readouterr().err
    assert not pm.has_plugin("datasette.handle_exception")


async def test_it_still_responds_with_a_number_as_if_it_were_bytes(browser):
    request = make_request("/traces/usage/1.blob?_blob_column=id")
    given = (browser, "traces", [{"id": 1}], ["id"], request, "usage", "row")
    assert (await render_blob(*given)).body == 1


def test_our_templates_ask_for_nothing_but_what_it_still_gives_its_own(browser):
    stock = Datasette().jinja_env
    replaced = {Path(patch.name).name for patch in datasette_patches.EVERY if "/" in patch.name}
    assert replaced == set(page_templates()) & set(stock.list_templates())
    ours = find_variables(browser.jinja_env, replaced)
    assert ours - find_variables(stock, stock.list_templates()) == ADDED


def find_variables(environment, names):
    found = set()
    for name in names:
        source, _, _ = environment.loader.get_source(environment, name)
        found |= meta.find_undeclared_variables(environment.parse(source))
    return found - set(environment.globals)
