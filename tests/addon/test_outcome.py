import pytest

from addon.exchange import Phase
from addon.outcome import explain_failure

LATE = {"timed_out": Phase.IDLE}
BAD_HEAD = "Cannot parse HTTP response: its status line is not valid"


@pytest.mark.parametrize(
    ("facts", "outcome", "status", "error_type"),
    [
        ({"timed_out": Phase.CONNECT}, "upstream_timeout", 504, "upstream_timeout"),
        (LATE | {"was_sent": True}, "upstream_timeout", 504, "upstream_timeout"),
        (LATE | {"client_left": True}, "upstream_timeout", 504, "upstream_timeout"),
        ({"client_left": True, "was_sent": True}, "client_disconnected", 502, None),
        ({}, "upstream_unreachable", 502, "upstream_unreachable"),
        ({"was_sent": True}, "upstream_interrupted", 502, "upstream_interrupted"),
        ({"was_sent": True, "message": BAD_HEAD}, "upstream_interrupted", 502, "upstream_invalid"),
        ({"for_web": True}, "upstream_unreachable", 503, "web_unavailable"),
    ],
)
def test_a_failure_has_one_name_and_one_answer(facts, outcome, status, error_type):
    defaults = {"timed_out": None, "client_left": False, "was_sent": False, "for_web": False}
    failure = explain_failure(**(defaults | {"message": "why"} | facts))
    assert (failure.outcome, failure.refusal.status) == (outcome, status)
    assert failure.error_type == error_type
