"""Upstream's report of the recorded exchanges agrees with what the recorder makes of them."""

from dataclasses import replace
from datetime import date

from extensions.reconcile.admin_api import AdminApi
from extensions.reconcile.comparison import compare
from extensions.reconcile.recorded_usage import read_recorded_usage
from extensions.reconcile.reports import fetch_reports
from extensions.reconcile.tests import admin_api
from extensions.reconcile.tests.admin_api import ADMIN_KEY
from metering import token_counts
from metering.prices import PriceTable
from store.spool.format import ResponseHead
from store.traces.database import TraceDatabase
from tests.recorded import CASES, RECORDED, load_expected, needs_recorded
from tests.recorder.test_record import make

DAY = date(2026, 11, 20)


def record():
    """The entry of each exchange with what was written down of it. Those of several passes are left
    out: what is written down is their sum, and a report has it by model."""
    for name, case in CASES.items():
        expected = load_expected(name)
        body = (RECORDED / case["response_file"]).read_bytes()
        if expected["logged"] and b'"iterations":[{' not in b"".join(body.split()):
            head = ResponseHead(status_code=case["status"], content_type=case["content_type"])
            yield replace(make(body, head), entry_id=name), expected


@needs_recorded
def test_a_report_of_the_counts_written_down_agrees(tmp_path):
    recorded = list(record())
    assert len(recorded) > 20
    with admin_api.AdminApi() as upstream:
        for entry, expected in recorded:
            upstream.use(
                DAY.isoformat(),
                str(entry.model),  # not all exchanges have a name for it written down
                input=expected["input_tokens"] or 0,
                output=expected["output_tokens"] or 0,
                read=expected["cache_read_input_tokens"] or 0,
                write_5m=expected["cache_creation_input_tokens"] or 0,
            )
        with AdminApi(upstream.url, ADMIN_KEY, is_local=True) as api:
            reports = fetch_reports(api, DAY, DAY)
    path = tmp_path / "traces.db"
    with TraceDatabase(path) as traces:
        traces.insert([entry for entry, _ in recorded])
    found = compare(
        reports.items, read_recorded_usage(path, DAY, DAY, PriceTable()).items, open_day=DAY
    )
    tokens = [row for row in found.rows if row.kind == "tokens"]
    assert len(tokens) > 8
    for row in tokens:
        for name in token_counts.NAMES:
            counts = (getattr(row.reported.tokens, name), getattr(row.recorded.tokens, name))
            assert counts[0] == counts[1], (row.model, name)
