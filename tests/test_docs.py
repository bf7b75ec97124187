"""The documentation says what the code does."""

import re
import sqlite3
import tomllib
from collections import Counter
from contextlib import closing

import click
import pytest

from runtime.settings import list_settings
from store.control.retention import LIMITS
from store.traces.database import TraceDatabase
from tests import ROOT
from tests.docs import (
    render_columns,
    render_commands,
    render_reference,
    render_settings,
    walk_commands,
)
from tests.packaging.notes import find_notes
from tests.wire.decisions import load_decisions

READMES = sorted(ROOT.glob("extensions/*/README.md"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *READMES]
INTERNALS = sorted(ROOT.glob("docs/internals/*.md"))

FILE = re.compile(r"`([\w./-]+\.(?:py|toml|js|sh))`")


def test_every_setting_is_listed_as_the_code_has_it():
    assert render_settings() in (ROOT / "docs" / "settings.md").read_text()


def test_every_command_is_listed_and_the_reference_is_what_help_prints():
    page = (ROOT / "docs" / "cli.md").read_text()
    assert render_commands() in page
    assert render_reference() in page


def test_a_first_read_is_short_and_about_one_machine():
    text, _, links = (ROOT / "README.md").read_text().partition("## More\n")
    assert len([*text.splitlines(), *links.splitlines()]) <= 220
    assert re.search("cluster|redis|several machines", text, re.I) is None


def test_every_document_can_be_reached_from_the_readme():
    found, unread = set(), [ROOT / "README.md"]
    while unread:
        page = unread.pop()
        if page not in found:
            found.add(page)
            links = re.findall(r"\]\(([^)#:]+\.md)", page.read_text())
            unread += [(page.parent / link).resolve() for link in links]
    assert found >= set(PAGES)


def test_the_changelog_has_a_section_for_what_comes_and_one_for_each_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    first, newest, *_ = re.findall(r"^## (.+)$", text, re.M)
    assert first == "Unreleased"
    assert re.fullmatch(re.escape(project["version"]) + r" - \d{4}-\d\d-\d\d", newest)


def test_no_line_of_the_changelog_is_there_twice():
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line[:2] == "- "]
    beginnings = Counter(line[:60] for line in lines)
    assert [line for line, count in beginnings.items() if count > 1] == []


def test_what_the_first_release_can_do_is_told_in_short():
    notes = find_notes("v0.1.0", "0.1.0", (ROOT / "CHANGELOG.md").read_text())
    lines = notes.splitlines()
    assert len(lines) <= 50  # more come of a merge with the changelog of before it
    assert all(len(line) <= 300 for line in lines)


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


def test_every_limit_of_retention_is_described():
    text = (ROOT / "docs" / "retention.md").read_text()
    assert [limit.name for limit in LIMITS if f"- **`{limit.name}`**" not in text] == []


def test_the_queries_in_the_table_reference_run(tmp_path):
    path = tmp_path / "traces.db"
    TraceDatabase(path).close()
    queries = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "tables.md").read_text(), re.DOTALL)
    with closing(sqlite3.connect(path)) as db:
        for query in queries:
            db.execute(query)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        if not target.startswith("http"):
            path = page.parent / target if target else page
            assert path.exists(), target
            assert not heading or heading in list_anchors(path.read_text()), (target, heading)


def list_anchors(text):
    """Return what a link to a heading of a page may name, as hosts of repositories make it."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [*INTERNALS, *READMES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_files_that_a_page_on_internals_names_exist(page):
    rooms = [ROOT, ROOT / page.stem, ROOT / "extensions" / page.stem, page.parent]
    named = FILE.findall(page.read_text())
    assert named
    assert [name for name in named if not any((room / name).exists() for room in rooms)] == []


def test_files_that_decisions_about_the_upstreams_api_name_exist():
    rows = [row for kind in load_decisions().values() for row in kind.rows]
    assert {path for row in rows for path in row.read_in if not (ROOT / path).exists()} == set()


def test_the_introduction_is_read_in_ten_minutes_and_names_files_that_exist():
    text = (ROOT / "docs" / "design.md").read_text()
    assert len(text.encode()) <= 20_000
    assert [name for name in FILE.findall(text) if not (ROOT / name).exists()] == []


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
