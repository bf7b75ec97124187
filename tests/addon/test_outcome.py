import pytest

from addon.exchange import Phase
from addon.outcome import explain_failure


@pytest.mark.parametrize(
    ("facts", "outcome", "status", "error_type"),
    [
        ({"timed_out": Phase.CONNECT}, "upstream_timeout", 504, "upstream_timeout"),
        ({"timed_out": Phase.IDLE, "was_sent": True}, "upstream_timeout", 504, "upstream_timeout"),
        (
            {"timed_out": Phase.IDLE, "client_left": True},
            "upstream_timeout",
            504,
            "upstream_timeout",
        ),
        ({"client_left": True, "was_sent": True}, "client_disconnected", 502, None),
        ({}, "upstream_unreachable", 502, "upstream_unreachable"),
        ({"was_sent": True}, "upstream_interrupted", 502, "upstream_interrupted"),
        ({"for_web": True}, "upstream_unreachable", 503, "web_unavailable"),
    ],
)
def test_a_failure_has_one_name_and_one_answer(facts, outcome, status, error_type):
    defaults = {"timed_out": None, "client_left": False, "was_sent": False, "for_web": False}
    failure = explain_failure(**(defaults | facts), message="why")
    assert (failure.outcome, failure.refusal.status) == (outcome, status)
    assert failure.error_type == error_type


def test_a_response_head_that_is_not_valid_has_a_code_of_its_own():
    message = "Cannot parse HTTP response: its status line is not valid"
    failure = explain_failure(
        timed_out=None, client_left=False, was_sent=True, for_web=False, message=message
    )
    assert (failure.outcome, failure.refusal.status) == ("upstream_interrupted", 502)
    assert failure.error_type == "upstream_invalid"
