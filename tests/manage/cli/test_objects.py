"""Managed sessions and dreams in exports and imports."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from manage.cli import export, importing
from metering.token_counts import TokenCounts
from store.traces.database import TraceDatabase
from tests.lazily import import_lazily
from tests.manage.cli.test_import import Place, handing_over
from tests.store.traces.sums.test_products import READING, make_object
from tests.store.traffic import make_entry

pq = import_lazily("pyarrow.parquet")

TOKENS = TokenCounts(
    input_tokens=1_000,
    output_tokens=20,
    cache_creation_input_tokens=3,
    cache_read_input_tokens=400,
)
LATER = replace(READING, read_at="2026-01-03T12:00:00.000Z")


@pytest.fixture
def here(tmp_path):
    place = Place(tmp_path / "here")
    store(
        place,
        replace(READING, proxy_endpoint_id=place.endpoint_id, credential_hmac="abc"),
        make_object(
            "sesn_1",
            cents="12.5",
            list_cents="13",
            tokens=TOKENS,
            web_search_requests=2,
            active_seconds=90.5,
            ended_at="2026-01-02T11:00:00.000Z",
        ),
        make_object("sesn_2", created_at="2026-01-05T10:00:00.000Z", cents=None),
    )
    of_dreams = replace(LATER, slug="nightly", proxy_endpoint_id="e7")
    store(place, of_dreams, make_object("drm_1", "dream", created_at=None))
    return place


@pytest.fixture
def there(tmp_path):
    return Place(tmp_path / "there")


def store(place, reading, *objects):
    with TraceDatabase(place.path) as traces:
        traces.write_upstream_objects(reading, objects)


def write(place, *arguments):
    result = place.run("export", "--objects", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def list_ids(text):
    return [json.loads(line)["object_id"] for line in text.splitlines()]


def test_an_export_of_objects_has_all_columns_of_their_table(here, monkeypatch):
    monkeypatch.setattr(export, "MAX_ROWS", 2)
    rows = [json.loads(line) for line in write(here).splitlines()]
    assert [row["object_id"] for row in rows] == ["drm_1", "sesn_1", "sesn_2"]
    columns = [
        name for (name,) in here.read("select name from pragma_table_info('upstream_objects')")
    ]
    assert list(rows[0]) == ["organization_id", *columns]
    assert rows[1]["organization_id"] == here.organization_id
    counts = {name: rows[1][name] for name in ("input_tokens", "active_seconds", "list_cost_cents")}
    assert counts == {"input_tokens": 1_000, "active_seconds": 90.5, "list_cost_cents": 13.0}
    document = json.loads(write(here, "--json"))
    assert document == {"items": rows, "nextCursor": None, "hasMore": False}


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (("--since", "2026-01-03"), ["drm_1", "sesn_2"]),  # a dream without it, by its reading
        (("--until", "2026-01-03"), ["sesn_1"]),
        (("--from", "2026-01-02", "--to", "2026-01-03"), ["drm_1", "sesn_1"]),
        (("--slug", "default"), ["sesn_1", "sesn_2"]),
        (("--slug", "default", "--since", "2026-01-03"), ["sesn_2"]),
    ],
)
def test_a_period_and_slugs_choose_objects(here, arguments, ids):
    assert list_ids(write(here, *arguments)) == ids


@pytest.mark.slow
def test_objects_come_as_csv_and_parquet_too(here, tmp_path):
    (row, *_) = csv.DictReader(io.StringIO(write(here, "--format", "csv", "--until", "2026-01-03")))
    assert (row["object_id"], row["cost_cents"]) == ("sesn_1", "12.5")
    target = tmp_path / "objects.parquet"
    assert write(here, "-o", str(target)) == f"Wrote 3 managed sessions or dreams to {target}.\n"
    rows = pq.read_table(target).to_pylist()
    assert rows[1]["created_at"] == datetime(2026, 1, 2, 10, tzinfo=UTC)
    assert rows[1]["cost_cents"] == Decimal("12.5")


@pytest.mark.parametrize("arguments", [("--bodies",), ("--model", "claude-*")])
def test_what_concerns_calls_alone_is_refused_beside_objects(here, arguments):
    assert here.run("export", "--objects", *arguments).exit_code == 2


def test_nothing_recorded_is_an_empty_export_of_objects(there):
    assert write(there) == ""


def test_imported_objects_are_as_they_were_recorded(here, there):
    result = there.run("import", "-", input=write(here))
    assert result.stdout == "Imported 0 calls and 3 managed sessions or dreams.\n", result.output
    columns = (
        "object_id, kind, slug, credential_hmac, read_at, created_at, ended_at, status, model,"
        " input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens,"
        " cache_write_1h_tokens, web_search_requests, active_seconds, cost_cents, list_cost_cents"
    )
    rows = f"select {columns} from upstream_objects order by 1"  # noqa: S608 - our own names
    assert there.read(rows) == here.read(rows)
    # That of the slug here, where there is one.
    endpoints = there.read("select distinct slug, proxy_endpoint_id from upstream_objects")
    assert sorted(endpoints) == [("default", there.endpoint_id), ("nightly", "e7")]
    assert here.run("usage", "--json").stdout != ""
    assert (
        json.loads(there.run("usage", "--json").stdout)["products"]
        == (json.loads(here.run("usage", "--json").stdout)["products"])
    )


def test_the_newest_counts_of_an_object_stay(here, there):
    old = write(here)
    store(here, LATER, make_object("sesn_1", cents="99"))
    new = write(here)
    counts = []
    for lines in (old + new, old, new):
        result = there.run("import", "-", "--json", input=lines)
        done = json.loads(result.stdout)
        counts.append((done["new"], done["already_there"]))
        cents = there.read("select cost_cents from upstream_objects where object_id = 'sesn_1'")
        assert cents == [(99.0,)]
    assert counts == [(3, 3), (0, 3), (0, 3)]


def test_calls_and_objects_may_be_in_one_file(here, there, monkeypatch):
    monkeypatch.setattr(importing, "GROUP_CALLS", 2)
    here.insert(*(make_entry() for _ in range(3)))
    with handing_over(there):
        result = there.run("import", "-", input=write(here) + here.export())
    assert result.stdout == "Imported 3 calls and 3 managed sessions or dreams.\n", result.output
    assert there.read("select count(*) from upstream_objects") == [(3,)]
    assert there.read("select count(*) from usage") == [(3,)]


@pytest.mark.parametrize(
    "changes",
    [
        {"object_id": ""},
        {"object_id": "x" * 201},
        {"object_id": 7},
        {"kind": "of the future"},
        {"read_at": "yesterday"},
        {"read_at": None},
        {"created_at": "2026-01-02"},
        {"input_tokens": "many"},
        {"cost_cents": "12"},
        {"slug": None},
        {"organization_id": None},
    ],
)
def test_a_line_that_is_no_object_of_an_export_is_refused(here, there, changes):
    first = json.loads(write(here).splitlines()[0])
    result = there.run("import", "-", input=json.dumps(first | changes))
    assert result.exit_code == 1
    assert "line 1 cannot be imported: its" in result.stderr
    assert there.run("export", "--objects").stdout == ""


def test_objects_of_several_organizations_are_not_mixed(here, there):
    first, *others = write(here).splitlines()
    theirs = json.dumps(json.loads(first) | {"organization_id": "theirs"})
    text = "\n".join([theirs, *others])
    assert there.run("import", "-", input=text).exit_code == 1
    arguments = ("import", "file", "-", "--organization", here.organization_id)
    result = there.run(*arguments, input=text)
    assert result.exit_code == 0
    assert "1 was left out (other_organization)" in result.stdout
