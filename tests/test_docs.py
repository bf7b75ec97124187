"""The documentation says what the code does."""

import re
import sqlite3
from contextlib import closing

import click
import pytest

from runtime.settings import list_settings
from store.traces.database import TraceDatabase
from tests import ROOT
from tests.docs import (
    render_columns,
    render_commands,
    render_reference,
    render_settings,
    walk_commands,
)

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")]


def test_the_readme_lists_every_command_and_setting_as_the_code_has_them():
    readme = (ROOT / "README.md").read_text()
    assert render_commands() in readme
    assert render_settings() in readme


def test_the_command_reference_is_what_help_prints():
    reference = (ROOT / "docs" / "cli.md").read_text()
    assert render_reference() in reference
    assert render_settings() in reference


def test_every_command_has_a_help_with_examples_and_every_option_a_help():
    for path, command in walk_commands():
        assert command.help, path
        examples = command.help.partition("Examples:")[2]
        assert " ".join(path) in examples, path
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (path, parameter.name)


def test_commands_use_the_nouns_of_pages_and_documents():
    others = re.compile(r"\b(?:entry|entries|exchanges?|answer\w*|asked)\b")
    assert [line for line in render_reference().splitlines() if others.search(line)] == []


def test_the_table_reference_describes_every_column_of_usage_log():
    assert render_columns() in (ROOT / "docs" / "tables.md").read_text()


def test_the_queries_in_the_table_reference_run(tmp_path):
    path = tmp_path / "traces.db"
    TraceDatabase(path).close()
    queries = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "tables.md").read_text(), re.DOTALL)
    with closing(sqlite3.connect(path)) as db:
        for query in queries:
            db.execute(query)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_settings_named_in_the_documentation_exist():
    known = {setting.variable for setting in list_settings()} | {
        "TAXIMETER_API_KEY",
        "TAXIMETER_PYTHON",  # for run.sh
        "TAXIMETER_RECORDED",
        "TAXIMETER_SCREENSHOTS",
        "TAXIMETER_TEST_REDIS",
    }
    for page in PAGES:
        assert set(re.findall(r"TAXIMETER_\w*\w", page.read_text())) <= known
