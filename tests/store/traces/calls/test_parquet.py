"""Rows as Parquet: types, exact values, bounded memory."""

import io
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from tests.lazily import import_lazily

pa = import_lazily("pyarrow")  # which takes an eighth of a second
pq = import_lazily("pyarrow.parquet")
PARQUET = "store.traces.calls.parquet"
parquet = import_lazily(PARQUET)  # which imports it, too


def write(columns, rows):
    output = io.BytesIO()
    writer = parquet.ParquetWriter(output, [parquet.Column(*each) for each in columns])
    for row in rows:
        writer.write(row)
    writer.close()
    return pq.ParquetFile(io.BytesIO(output.getvalue()))


def test_declared_columns_have_types_that_fit_also_without_rows():
    columns = [
        ("id", "integer"),
        ("created_at", "text"),
        ("model", "text"),
        ("cost_cents", "real"),
        ("rate_usd", "REAL"),
        ("ttfb_ms", "real"),
        ("hash", "blob"),
        ("request_body", ""),
    ]
    schema = write(columns, []).schema_arrow
    assert schema.types == [
        pa.int64(),
        pa.timestamp("us", "UTC"),
        pa.string(),
        pa.decimal128(38, 18),
        pa.decimal128(38, 18),
        pa.float64(),
        pa.binary(),
        pa.string(),
    ]


def test_values_are_exact_and_null_stays_null():
    columns = [("at", "integer"), ("created_at", "text"), ("cost_cents", "real"), ("hash", "blob")]
    rows = [
        (2**62 + 1, "2026-01-31T14:03:27.123Z", 0.0347, {"$base64": True, "encoded": "/wA="}),
        (None, None, None, None),
    ]
    assert write(columns, rows).read().to_pylist() == [
        {
            "at": 2**62 + 1,
            "created_at": datetime(2026, 1, 31, 14, 3, 27, 123_000, UTC),
            "cost_cents": Decimal("0.0347"),
            "hash": b"\xff\0",
        },
        dict.fromkeys(("at", "created_at", "cost_cents", "hash")),
    ]


@given(st.decimals(0, 10**9, places=12))
def test_a_cost_that_was_stored_as_a_double_comes_back_as_it_was_written(cents):
    if Decimal(repr(float(cents))) == cents:  # at most 17 digits
        (row,) = write([("cost_cents", "real")], [(float(cents),)]).read().to_pylist()
        assert row["cost_cents"] == cents


def test_columns_of_a_query_have_the_types_of_their_values():
    columns = [(name, "") for name in ("calls", "cost_cents", "share", "day", "nothing", "mixed")]
    rows = [(1, 1.5, 1, "2026-01-01", None, "a"), (2, 2.5, 0.5, "2026-01-02", None, 1)]
    table = write(columns, rows).read()
    assert table.schema.types == [
        pa.int64(),
        pa.decimal128(38, 18),
        pa.float64(),
        pa.string(),
        pa.string(),
        pa.string(),
    ]
    assert table.column("mixed").to_pylist() == ["a", "1"]


def test_what_is_named_like_a_time_and_is_none_is_text():
    assert write([("what_at", "text")], [("home",)]).read().to_pylist() == [{"what_at": "home"}]


def test_a_value_of_another_type_names_its_column():
    with pytest.raises(parquet.ConversionError, match="column id: 'x' is not an integer"):
        write([("id", "integer")], [(1,), ("x",)])


def test_a_long_export_is_many_row_groups_of_bounded_size(monkeypatch):
    monkeypatch.setattr(f"{PARQUET}._GROUP_ROWS", 5_000)
    file = write([("id", "integer")], ((n,) for n in range(12_345)))
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert sum(sizes) == 12_345
    assert max(sizes) <= 6_000
    assert file.read().column("id").to_pylist() == list(range(12_345))


def test_large_values_are_written_before_they_are_many(monkeypatch):
    monkeypatch.setattr(f"{PARQUET}._BATCH_CHARACTERS", 1_000)
    monkeypatch.setattr(f"{PARQUET}._GROUP_BYTES", 2_000)
    file = write([("body", "text")], (("x" * 500,) for _ in range(40)))
    assert file.metadata.num_row_groups >= 8
