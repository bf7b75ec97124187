import pytest

from metering.client_hints import HEADERS, MAX_CHARS, TEXTS, collect_hints, keep_identifiers

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_hints_are_kept_by_name_and_nothing_else_is():
    named = {
        b"x-claude-code-request-class": "subagent",
        b"x-session-id": "s",
        b"x-claude-code-new": "unknown header",
        b"authorization": "Bearer secret",
        b"x-claude-code-agent-type": "",
    }
    assert collect_hints(named) == {
        "x-claude-code-request-class": "subagent",
        "x-session-id": "s",
    }


@pytest.mark.parametrize(
    ("traceparent", "hints"),
    [
        (f"00-{TRACE}-b7ad6b7169203331-01", {"trace-id": TRACE}),
        (f"01-{TRACE}-b7ad6b7169203331-01-more", {"trace-id": TRACE}),
        (f"00-{TRACE.upper()}-b7ad6b7169203331-01", {}),
        ("sk-ant-secret", {}),
        ("", {}),
    ],
)
def test_of_a_traceparent_only_the_trace_id_is_kept(traceparent, hints):
    assert collect_hints({b"traceparent": traceparent}) == hints


def test_values_are_bounded():
    hints = collect_hints(dict.fromkeys(HEADERS, "x" * 10_000))
    assert hints.pop("x-claude-code-prev-tool-durations") == "x" * 4096
    assert {len(value) for value in hints.values()} == {MAX_CHARS}


def test_identifiers_are_kept_and_what_is_text_or_stands_in_their_place_is_not():
    hints = {name.decode(): "a-1" for name in HEADERS} | {"trace-id": TRACE}
    assert keep_identifiers(hints).keys() == hints.keys() - {
        "x-litellm-tags",
        "x-claude-code-prev-tool-durations",
    }
    assert keep_identifiers(dict.fromkeys(hints, "a private text")) == {}
    assert all(name.encode() in HEADERS for name in TEXTS)
