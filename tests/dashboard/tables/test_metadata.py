"""``datasette-metadata.json`` is generated from canned queries and descriptions, which are checked."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner

from dashboard.tables.metadata import METADATA_PATH, __main__ as command
from dashboard.tables.metadata.declarations import MetadataError
from dashboard.tables.metadata.generator import FOLDER, generate, is_stale
from metering.token_counts import PROMPT_CLASSES

HEAD = 'title = "Busy days"\ndescription = "Calls of each day."\nplace = 5'
DAYS = (
    'parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 90, default = 7 }'
)
SQL = "select count(*) from usage"
SQL_WITH_DAYS = f"{SQL} where created_at >= date('now', '-' || :days || ' days')"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "metadata")


@pytest.fixture
def write(folder):
    def write(head, sql, name="busy_days"):
        (folder / "queries" / f"{name}.sql").write_text(f"/*\n{head}\n*/\n{sql}\n")

    return write


@pytest.fixture
def describe(folder):
    def describe(old, new):
        path = folder / "tables.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return describe


def read_queries(folder):
    return json.loads(generate(folder))["databases"]["traces"]["queries"]


def test_the_file_is_what_the_declarations_make():
    assert not is_stale(METADATA_PATH)


def test_pages_show_no_marks_of_markdown():
    tables = json.loads(METADATA_PATH.read_text())["databases"]["traces"]["tables"]
    assert "`" not in json.dumps(tables)


def test_the_file_has_no_rules_of_access_for_the_trace_browser_asks_for_none():
    assert not re.search(r'"(allow\w*|permissions)":', METADATA_PATH.read_text())


def test_a_query_is_listed_at_its_place_with_its_parameters(folder, write):
    write(f"{HEAD}\n{DAYS}", SQL_WITH_DAYS)
    queries = read_queries(folder)
    assert next(iter(queries)) == "busy_days"
    assert queries["busy_days"] == {
        "title": "Busy days",
        "description": "Calls of each day.",
        "sql": SQL_WITH_DAYS.replace(":days", "cast(coalesce(nullif(:days, ''), 7) as integer)"),
        "params": ["days"],
        "parameters": {
            "days": {"label": "Days", "type": "integer", "minimum": 0, "maximum": 90, "default": 7}
        },
    }


def test_a_query_counts_the_prompt_in_every_class_of_it(folder, write):
    write(HEAD, "select sum(:prompt_tokens), ':prompt_tokens' from usage_hourly")
    query = read_queries(folder)["busy_days"]
    names = re.fullmatch(
        r"select sum\(\((.*)\)\), ':prompt_tokens' from usage_hourly", query["sql"]
    )
    assert names is not None
    assert names[1].split(" + ") == [each.name for each in PROMPT_CLASSES]
    assert "params" not in query


def test_a_colon_in_a_text_or_a_comment_is_no_parameter(folder, write):
    sql = f"select ':days', 'it''s :days', \":x\".id -- :days\nfrom usage as \":x\" /* :days */ where {SQL_WITH_DAYS.partition('where')[2]}"
    write(f"{HEAD}\n{DAYS}", sql)
    generated = read_queries(folder)["busy_days"]["sql"]
    assert generated.count("cast(") == 1
    assert generated.count(":days") == 5


@pytest.mark.parametrize(
    ("head", "sql", "message"),
    [
        (HEAD, "select modle from usage", "no such column: modle"),
        (HEAD, 'select "modle" from usage', "no such column: modle"),
        (HEAD, "select 1 from nowhere", "no such table: nowhere"),
        (HEAD, "select 1 from", "incomplete input"),
        (HEAD, "select 1; select 2", "one statement"),
        (HEAD, "delete from usage", "not authorized"),
        (HEAD, "select load_extension('x')", "not authorized"),
        (HEAD, "select ?", "supplied a dictionary"),
        (HEAD, SQL_WITH_DAYS, "the SQL uses :days: add parameters.days"),
        (f"{HEAD}\n{DAYS}", SQL, "does not use :days"),
        (HEAD.partition("\n")[2], SQL, "title: Field required"),
        (HEAD.replace("Busy days", " "), SQL, "title: String should have at least 1 character"),
        (f"{HEAD}\ncolour = 1", SQL, "colour: Extra inputs are not permitted"),
        (f"{HEAD}\n{DAYS.replace('maximum = 90, ', '')}", SQL_WITH_DAYS, "maximum: Field required"),
        (
            f"{HEAD}\n{DAYS.replace('integer', 'float')}",
            SQL_WITH_DAYS,
            "parameters.days: Input tag",
        ),
        (
            f"{HEAD}\n{DAYS.replace('default = 7', 'default = 91')}",
            SQL_WITH_DAYS,
            "default: days has to be a whole number from 0 to 90; it is '91'",
        ),
        ("title", SQL, "not valid TOML"),
    ],
)
def test_a_query_with_an_error_is_named(folder, write, head, sql, message):
    write(head, sql)
    with pytest.raises(MetadataError, match=rf"^busy_days\.sql: .*{re.escape(message)}"):
        generate(folder)


def test_a_file_without_a_head_is_named(folder):
    (folder / "queries" / "bare.sql").write_text(SQL)
    with pytest.raises(MetadataError, match=r"^bare\.sql: begin the file with a head"):
        generate(folder)


@pytest.mark.parametrize("name", ["Busy-Days", "usage"])
def test_a_name_that_is_no_address_of_its_own_is_refused(folder, write, name):
    write(HEAD, SQL, name)
    with pytest.raises(MetadataError, match=rf"^{name}\.sql: "):
        generate(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('line = "Number of the line', '# "', "usage_cost.line has no description"),
        ('speed = "', '# "', "usage.speed has no description"),
        ('  "pieces",\n', "", "the table pieces has no description"),
        ('  "pieces",\n', '"pieces", "peices",\n', "there is no table peices"),
        ('bucket = "', 'bukket = "', "there is no column rejections_hourly.bukket"),
        ('speed = "', 'spede = "x"\nspeed = "', "there is no column spede in any table"),
        ('sort_desc = "hour"', 'sort_desc = "our"', "there is no column usage_hourly.our"),
        ('title = "Calls"\n', "", "tables.usage.title: Field required"),
    ],
)
def test_a_description_that_does_not_fit_the_tables_is_named(folder, describe, old, new, message):
    describe(old, new)
    with pytest.raises(MetadataError, match=rf"^tables\.toml: .*{re.escape(message)}"):
        generate(folder)


def test_the_check_fails_on_a_stale_file_and_leaves_it(tmp_path, monkeypatch):
    target = tmp_path / "datasette-metadata.json"
    monkeypatch.setattr(command, "METADATA_PATH", target)
    for text in (None, "{}"):
        if text is not None:
            target.write_text(text)
        result = CliRunner().invoke(command.main, ["--check"])
        assert result.exit_code == 1
        assert "is stale: call ./run.sh generate" in result.output
    assert target.read_text() == "{}"
    assert CliRunner().invoke(command.main).exit_code == 0
    assert CliRunner().invoke(command.main, ["--check"]).exit_code == 0
    assert target.read_text() == METADATA_PATH.read_text()
