"""Rows of tables: the cells that Datasette would make, made only when they are displayed."""

import threading
from types import ModuleType

import pytest
from datasette import hookimpl
from datasette.plugins import pm
from datasette.utils import CustomRow
from jinja2 import FileSystemLoader

from dashboard.tables import rows
from dashboard.tables.lean_datasette import display_columns_and_rows
from dashboard.tables.trace_browser import TraceBrowser
from store.traces.database import TraceDatabase
from tests.dashboard.browsing import OURS, record
from tests.store.traffic import make_entry

TABLES = ("usage", "usage_log", "usage_cost", "usage_hourly", "pieces", "request_bodies")
LONG = f"https://example.org/{'x' * 3000}.html"


@pytest.fixture
def browser(tmp_path):
    path = tmp_path / "traces.db"
    record(path, OURS)
    with TraceDatabase(path) as traces:
        traces.insert(
            [
                make_entry(
                    slug="<i>a</i>", client=LONG, session_id=" https://a/?<b>&c ", agent_id=""
                ),
                make_entry(slug="http://a b", client="y" * 3000, request_body=b"\x00"),
            ]
        )
    browser = TraceBrowser(path, threading.Event())
    yield browser
    browser.executor.submit(browser.file.close)
    browser.executor.shutdown()


async def compare(browser, table, results, found):
    """Display rows as Datasette and as we do, and compare all that templates can see of them."""
    has_key = table != "usage_log"
    arguments = (browser, "traces", table, results.description, found, has_key, 2048, {"id"})
    columns, theirs = await display_columns_and_rows(*arguments)
    our_columns, ours = await rows.display(*arguments)
    assert our_columns == columns
    assert len(ours) == len(theirs) > 0
    for our_row, their_row in zip(ours, theirs, strict=True):
        expected = [cell for cell in their_row if cell["column"] != "Link"]
        assert [(cell.column, cell.raw, str(cell.value), cell.kind) for cell in our_row] == [
            (cell["column"], cell["raw"], str(cell["value"]), cell["value_type"])
            for cell in expected
        ]
        for cell in expected:
            if cell["value_type"] != "pk":  # of which Datasette has the text
                assert our_row[cell["column"]] == their_row[cell["column"]]


@pytest.mark.parametrize("table", TABLES)
async def test_cells_are_those_of_datasette(browser, table):
    results = await browser.file.execute(f'select * from "{table}"')  # noqa: S608
    await compare(browser, table, results, results.rows)


async def test_a_foreign_key_with_a_label_is_displayed_as_datasette_does(browser):
    results = await browser.file.execute("select * from usage_cost limit 5")
    names = [column[0] for column in results.description]
    labels = ["<b>one</b>", 2, None, "3", ""]
    found = [
        CustomRow(names, {**dict(row), "usage_id": {"value": row["usage_id"], "label": label}})
        for row, label in zip(results.rows, labels, strict=True)
    ]
    await compare(browser, "usage_cost", results, found)


async def test_a_column_that_is_not_there_is_a_missing_key(browser):
    results = await browser.file.execute("select id from usage")
    _, found = await rows.display(browser, "traces", "usage", results.description, results.rows)
    with pytest.raises(KeyError, match="model"):
        found[0]["model"]


async def test_the_list_of_calls_makes_no_cell_that_it_does_not_display(client, ann, monkeypatch):
    record(ann.path, OURS)
    monkeypatch.delattr(rows.Row, "__iter__")
    answer = await client.get("/traces/usage", headers=ann.cookie)
    assert answer.status_code == 200
    assert OURS in answer.text


async def test_no_hook_of_plugins_is_called_for_a_cell(client, ann):
    record(ann.path, OURS)
    called = []

    @hookimpl
    def render_cell(column):
        called.append(column)

    plugin = ModuleType("plugin")
    vars(plugin)["render_cell"] = render_cell
    pm.register(plugin)
    try:
        for path in ("/traces/usage_log", "/traces/usage_log/1", "/traces?sql=select+1,2"):
            assert (await client.get(path, headers=ann.cookie)).status_code == 200
    finally:
        pm.unregister(plugin)
    assert called == []


async def test_no_template_displays_what_would_have_to_be_awaited(client, ann):
    record(ann.path, OURS)
    for path in ("", "/usage", "/usage_log", "/usage_log/1", "/cost_by_endpoint", "/nothing"):
        answer = await client.get(f"/traces{path}", headers=ann.cookie)
        assert "<!doctype html>" in answer.text
        assert "coroutine" not in answer.text


async def test_no_file_of_a_template_is_looked_for_a_second_time(client, ann, monkeypatch):
    record(ann.path, OURS)
    paths = ("", "/usage", "/usage_log", "/usage_log/1", "/cost_by_endpoint")

    async def ask_for_all():
        return [await client.get(f"/traces{path}", headers=ann.cookie) for path in paths]

    def refuse(_loader, _environment, name):
        raise AssertionError(f"{name} is looked for again")

    await ask_for_all()
    monkeypatch.setattr(FileSystemLoader, "get_source", refuse)
    assert [answer.status_code for answer in await ask_for_all()] == [200] * len(paths)
