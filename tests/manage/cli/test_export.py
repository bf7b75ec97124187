import csv
import io
import json
import re
import stat
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from manage.api.call_operations import Calls, list_calls
from manage.cli import export
from manage.cli.backend_choice import open_all
from runtime.installing import command_for_extra
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests import ROOT
from tests.lazily import import_lazily
from tests.store.traffic import make_entry

pq = import_lazily("pyarrow.parquet")

DAY = "2026-01-{:02d}T12:00:00.000Z"


@pytest.fixture(autouse=True)
def _far_from_utc(far_from_utc):
    pass


@pytest.fixture
def entries(traces):
    made = [
        make_entry(
            entry_id=str(day),
            created_at=DAY.format(day),
            slug="even" if day % 2 == 0 else "odd",
            model=f"claude-{'opus' if day < 5 else 'haiku'}-{day}",
            request_body=f'{{"day": {day}, "text": "ü, \\"\\n"}}'.encode(),
            response_body=b"data: {}\r\n\r\n" if day != 3 else b"\xff\0",
            project="shop" if day < 3 else None,
            attributed_user="ann" if day > 3 else None,
            tags='["env:prod","nightly"]' if day == 6 else None,
        )
        for day in (2, 1, 3, 4, 5, 6)  # the second ended before the first
    ]
    traces.insert(made)
    return made


def exported(run, *arguments):
    result = run("export", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_column_of_usage_log_but_the_bodies_comes_in_order_of_arrival(run, entries, traces):
    rows = exported(run)
    assert [row["entry_id"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    view = [row[1] for row in traces.connection.execute("pragma table_info(usage_log)")]
    columns = [name for name in view if name not in ("request_body", "response_body")]
    assert list(rows[0]) == ["organization_id", *columns]
    assert rows[0]["cost_cents"] == 1.25


def test_filters_choose(run, entries, subtests):
    for arguments, ids in (
        (("--since", "2026-01-05"), "56"),
        (("--since", "2026-01-05T12:00"), "56"),
        (("--since", "2026-01-05T12:01"), "6"),
        (("--until", "2026-01-03"), "12"),
        (("--since", "2026-01-02", "--until", "2026-01-03T12:00"), "2"),
        (("--since", "2026-01-05T14:00+02:00"), "56"),
        (("--from", "2026-01-05"), "56"),
        (("--to", "2026-01-02"), "12"),
        (("--from", "2026-01-02", "--to", "2026-01-03"), "23"),
        (("--to", "9999-12-31"), "123456"),
        (("--slug", "even"), "246"),
        (("--slug", "even", "--slug", "odd"), "123456"),
        (("--model", "claude-opus-*"), "1234"),
        (("--model", "claude-opus-1"), "1"),
        (("--model", "claude-?pus-[12]"), ""),
        (("--model", "claude"), ""),
        (("--project", "shop"), "12"),
        (("--user", "ann", "--slug", "odd"), "5"),
        (("--tag", "env:prod"), "6"),
        (("--tag", "nightly", "--user", "ann"), "6"),
        (("--tag", "env"), ""),
        (("--slug", "even", "--model", "*haiku*", "--since", "2026-01-01"), "6"),
    ):
        with subtests.test(" ".join(arguments)):
            assert "".join(row["entry_id"] for row in exported(run, *arguments)) == ids


def test_bodies_are_exact(run, entries):
    rows = {row["entry_id"]: row for row in exported(run, "--bodies")}
    for entry in entries:
        row = rows[entry.entry_id]
        assert row["request_body"].encode() == entry.request_body
        if entry.entry_id != "3":
            assert row["response_body"].encode() == entry.response_body
    assert rows["3"]["response_body"] == {"$base64": True, "encoded": "/wA="}


def test_bodies_are_read_once():
    """Columns are asked for apart from calls, of which the first may have a body of 32 MB."""
    requests = []

    class Noting:
        def call(self, operation, id_="", /, **fields):
            requests.append(fields)
            return Calls(columns={"id": "integer"}, items=[], next_cursor=None, has_more=False)

    output = io.BytesIO()
    export.write_rows(output, list_calls, [Noting()], "csv", bodies="yes")
    assert output.getvalue() == b"id,request_body,response_body\r\n"
    assert [each["bodies"] for each in requests].count("yes") == 1


def test_csv_can_be_read_back(run, entries):
    text = run("export", "--format", "csv", "--bodies").stdout_bytes.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == 6
    for row in rows:
        (entry,) = [entry for entry in entries if entry.entry_id == row["entry_id"]]
        assert row["request_body"].encode() == entry.request_body
    assert rows[0]["response_body"] == "data: {}\r\n\r\n"
    assert json.loads(rows[2]["response_body"])["encoded"] == "/wA="


def test_csv_holds_nothing_that_a_spreadsheet_executes_unless_it_is_asked_for(run, traces):
    formula, body = "=HYPERLINK(A1)", b"@SUM(A1)"
    traces.insert([make_entry(model=formula, request_body=body, cost_cents=Decimal("-1.5"))])

    def cells(*arguments):
        text = run("export", "--format", "csv", "--bodies", *arguments).stdout_bytes.decode()
        (row,) = csv.DictReader(io.StringIO(text, newline=""))
        return row["model"], row["request_body"], row["cost_cents"]

    assert cells() == (f"'{formula}", f"'{body.decode()}", "-1.5")
    assert cells("--raw-csv") == (formula, body.decode(), "-1.5")
    assert exported(run)[0]["model"] == formula


def test_as_json_it_is_one_document_in_the_envelope_of_lists(run, entries):
    document = json.loads(run("export", "--json").stdout)
    assert document["items"] == exported(run)
    assert (document["nextCursor"], document["hasMore"]) == (None, False)
    assert (
        json.loads(run("export", "--json", "--slug", "default", "--to", "2025-01-01").stdout)[
            "items"
        ]
        == []
    )


def test_a_file_is_private_and_its_name_says_the_format(run, entries, tmp_path):
    target = tmp_path / "all.csv"
    assert run("export", "-o", str(target)).stdout == f"Wrote 6 calls to {target}.\n"
    assert target.read_text().startswith("organization_id,id,entry_id,")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    result = run("export", "-o", str(tmp_path / "all.jsonl"), "--json", "--slug", "even")
    assert json.loads(result.stdout) == {"entries": 3, "file": str(tmp_path / "all.jsonl")}
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 3
    assert run("export", "-o", "-").stdout == run("export").stdout


def test_one_end_of_a_period_is_named_once(run):
    result = run("export", "--from", "2026-01-01", "--since", "7d")
    assert result.exit_code == 2
    assert "--from and --since exclude each other" in result.output


@pytest.mark.parametrize("name", ["x.csv.gz", "x.xlsx"])
def test_a_file_of_an_unknown_kind_is_refused_and_not_made(run, entries, tmp_path, name):
    result = run("export", "-o", str(tmp_path / name))
    assert result.exit_code == 2
    assert ".jsonl, .ndjson, .csv, .parquet or .json" in result.output
    assert not (tmp_path / name).exists()
    assert run("export", "-o", str(tmp_path / name), "--format", "csv").exit_code == 0
    assert (tmp_path / name).read_text().startswith("organization_id,")


def test_each_known_name_gets_what_it_says(run, entries, tmp_path):
    for name in ("x.JSONL", "x.ndjson", "x"):
        assert run("export", "-o", str(tmp_path / name)).exit_code == 0
        lines = (tmp_path / name).read_text().splitlines()
        assert [json.loads(line)["entry_id"] for line in lines] == list("123456")
    assert run("export", "-o", str(tmp_path / "x.json")).exit_code == 0
    assert len(json.loads((tmp_path / "x.json").read_text())["items"]) == 6


def test_a_failed_export_leaves_no_file_and_the_old_one_alone(tmp_path):
    target = tmp_path / "all.csv"
    target.write_text("before")

    def fail_half_way():
        with export.open_private(target) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_what_is_no_file_is_written_to_and_not_replaced():
    with export.open_private(Path("/dev/null")) as file:
        file.write(b"gone")
    assert Path("/dev/null").is_char_device()


def test_nothing_recorded_is_an_empty_export(run):
    result = run("export")
    assert (result.exit_code, result.stdout) == (0, "")


def test_every_organisation_is_exported_with_its_id(run, entries, data_dir):
    with TraceDatabase(trace_path(data_dir, "zzz")) as other:
        other.insert([make_entry(entry_id="theirs")])
    rows = exported(run)
    assert len(rows) == 7
    assert (rows[-1]["organization_id"], rows[-1]["entry_id"]) == ("zzz", "theirs")


@pytest.mark.slow
def test_parquet_has_the_same_calls_with_times_and_exact_costs(run, traces, tmp_path):
    traces.insert(
        [
            make_entry(created_at=DAY.format(1), cost_cents=Decimal("0.0347"), ttfb_ms=12.5),
            make_entry(created_at=DAY.format(2), cost_cents=None, ttfb_ms=None, model=None),
        ]
    )
    target = tmp_path / "month.parquet"
    assert run("export", "-o", str(target)).stdout == f"Wrote 2 calls to {target}.\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    rows = pq.read_table(target).to_pylist()
    assert rows[0]["created_at"] == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert rows[0]["cost_cents"] == Decimal("0.0347")
    assert [row["model"] for row in rows] == ["claude-sonnet-4-5", None]
    others = exported(run)
    exact = {"created_at", "cost_cents", "estimated_cents"}
    for row, other in zip(rows, others, strict=True):
        assert list(row) == list(other)
        assert {n: v for n, v in row.items() if n not in exact} == {
            n: v for n, v in other.items() if n not in exact
        }


def test_without_pyarrow_the_message_names_the_command_that_installs_it(
    run, entries, tmp_path, monkeypatch
):
    monkeypatch.setattr(export, "find_spec", lambda _name: None)
    result = run("export", "-o", str(tmp_path / "x.parquet"))
    assert result.exit_code == 1
    assert command_for_extra("parquet") in result.output
    assert list(tmp_path.glob("*x.parquet*")) == []
    assert run("export", "-o", str(tmp_path / "x.csv")).exit_code == 0


@pytest.mark.slow
def test_the_documented_lines_read_the_documented_export(run, traces, tmp_path, monkeypatch):
    traces.insert(
        [
            make_entry(created_at=DAY.format(day), model=model, cost_cents=Decimal(cents))
            for day, model, cents in ((1, "a", "0.1"), (2, "a", "0.2"), (31, "b", "7"))
        ]
    )
    traces.insert([make_entry(created_at="2026-02-01T00:00:00.000Z")])
    text = (ROOT / "docs" / "export.md").read_text()
    command, lines, *_ = re.findall(r"```(?:sh|python)\n(.*?)```", text, re.S)
    monkeypatch.chdir(tmp_path)
    assert run(*command.split()[1:]).exit_code == 0
    with_pandas, with_duckdb = lines.splitlines()
    program = f"import duckdb, pandas; print(({with_pandas}).to_dict(), ({with_duckdb}).fetchall())"
    # In a process of its own: both together take half a second of every start.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)  # noqa: S603 - our own documentation
    assert done.stdout == (
        "{'a': Decimal('0.300000000000000000'), 'b': Decimal('7.000000000000000000')}"
        " [('b', 0.07), ('a', 0.003)]\n"
    ), done.stderr


class CountingOutput(io.BytesIO):
    """Forgets what is written, and remembers the largest write."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.largest = 0

    def write(self, data) -> int:
        size = memoryview(data).nbytes
        self.total += size
        self.largest = max(self.largest, size)
        return size


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_entries_are_written_as_they_are_read(traces, data_dir, kind):
    traces.insert([make_entry(request_body=b"x" * 1_000) for _ in range(450)])
    output = CountingOutput()
    with open_all(None, str(data_dir)) as backends:
        assert export.write_rows(output, list_calls, backends, kind, bodies="yes") == 450
    assert output.total > 450_000
    assert output.largest < 30_000
