"""Hints in request headers about what a call belongs to and its purpose.

Claude Code sends most of them only with ``CLAUDE_CODE_GATEWAY_HINT_HEADERS=1``. Other programs name
a session or a trace. A value is kept as it came, whether it is known or not, since values that are
not captured cannot be added to old calls."""

import re
from collections.abc import Mapping

from metering.request_facts import keep_plain_name

MAX_CHARS = 200
# A fixed list, so that no header with a credential is ever among them. Values are how many characters
# are kept.
HEADERS: Mapping[bytes, int] = {
    b"x-claude-code-parent-agent-id": MAX_CHARS,
    b"x-claude-code-request-class": MAX_CHARS,
    b"x-claude-code-prompt-id": MAX_CHARS,
    b"x-claude-code-agent-type": MAX_CHARS,
    b"x-claude-code-compaction": MAX_CHARS,
    b"x-claude-code-context-compacted": MAX_CHARS,
    b"x-claude-code-prev-tool-durations": 4096,  # the client's own bound
    b"x-litellm-session-id": MAX_CHARS,
    b"x-litellm-trace-id": MAX_CHARS,
    b"x-litellm-tags": MAX_CHARS,
    b"x-session-id": MAX_CHARS,
    b"session-id": MAX_CHARS,
    b"traceparent": MAX_CHARS,
}
# The hints that have a column of their own.
PARENT_AGENT_ID = "x-claude-code-parent-agent-id"
REQUEST_CLASS = "x-claude-code-request-class"
PROMPT_ID = "x-claude-code-prompt-id"
COLUMNS = (PARENT_AGENT_ID, REQUEST_CLASS, PROMPT_ID)
AGENT_TYPE = "x-claude-code-agent-type"
TRACE_ID = "trace-id"
# Not names and ids but what people and requests call things: tags, and the tools that ran.
TEXTS = ("x-litellm-tags", "x-claude-code-prev-tool-durations")

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*", re.DOTALL)


def collect_hints(named: Mapping[bytes, str]) -> dict[str, str]:
    """Return the hints in headers, which are given by lowercase name.

    Of a ``traceparent`` only the trace id is kept."""
    hints = {
        name.decode(): value[: HEADERS[name]]
        for name in HEADERS.keys() & named.keys()
        if (value := named[name])
    }
    parent = hints.pop("traceparent", None)
    trace = None if parent is None else _TRACEPARENT.fullmatch(parent)
    if trace is not None:
        hints[TRACE_ID] = trace[1]
    return hints


def keep_identifiers(hints: Mapping[str, str]) -> dict[str, str]:
    """Return the hints that are names or ids, without those that are or may be text."""
    return {
        name: value
        for name, value in hints.items()
        if name not in TEXTS and keep_plain_name(value) is not None
    }
