import orjson
import pytest
from hypothesis import given, strategies as st

from conversations.diagnosis import NO_REPORT, CacheReport, read_cache_report
from metering.usage import read_usage
from tests.recorded import CASES, RECORDED, needs_recorded

MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "diagnostics": {
        "cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 19_000}
    },
    "context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919"}]},
}
FOUND = CacheReport("msg_1", "tools_changed", "tools", 19_000, True)


def read_report(body: bytes) -> CacheReport:
    return read_cache_report(read_usage(200, None, body, is_complete=True))


def as_stream(message: dict[str, object]) -> bytes:
    edits = message.pop("context_management", None)
    start = {"type": "message_start", "message": message}
    delta = {"type": "message_delta", "context_management": edits}
    events = (start, {"type": "ping"}, delta, {"type": "message_stop"})
    return b"".join(b"event: x\ndata: " + orjson.dumps(event) + b"\n\n" for event in events)


@pytest.mark.parametrize("body", [orjson.dumps(MESSAGE), as_stream(dict(MESSAGE))])
def test_a_document_and_a_stream_say_the_same(body):
    assert read_report(body) == FOUND


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("model_changed", "model"),
        ("system_changed", "system"),
        ("tools_changed", "tools"),
        ("messages_changed", "messages"),
        ("previous_message_not_found", None),
        ("unavailable", None),
        ("new_reason", None),
    ],
)
def test_reasons_that_name_a_level_are_causes(reason, cause):
    message = {"id": "m", "diagnostics": {"cache_miss_reason": {"type": reason}}}
    report = read_report(orjson.dumps(message))
    assert (report.reason, report.cause, report.missed_tokens) == (reason, cause, None)


@pytest.mark.parametrize("diagnostics", [None, {}, {"cache_miss_reason": None}, [], "x"])
def test_no_difference_is_no_reason(diagnostics):
    body = orjson.dumps({"id": "msg_1", "diagnostics": diagnostics})
    assert read_report(body) == CacheReport(message_id="msg_1")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(body):
    assert read_report(body) == NO_REPORT


@needs_recorded
def test_recorded_responses_name_their_message_and_no_reason():
    for name, case in CASES.items():
        body = (RECORDED / case["response_file"]).read_bytes()
        report = read_report(body)
        assert report.reason is None, name
        if case["status"] == 200 and b'"msg_' in body[:2000]:
            assert report.message_id is not None, name
            assert body.count(report.message_id.encode()) > 0
