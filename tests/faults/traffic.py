"""The calls of the load. Request and response of each follow from its number alone, so that whoever knows
the number knows every byte that must be in its row.

The number is in the query, for the upstream, and in ``max_tokens``, which rows have even without bodies.
"""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tests.upstream import Gate, Script, answer, error_json, message_events, message_json, sse

type Kind = Literal["stream", "document", "held", "error", "gzip", "large"]

KINDS: Sequence[Kind] = (
    *("stream", "document", "held", "stream", "error"),
    *("stream", "document", "held", "gzip", "large"),
)
INPUT_TOKENS = 11
INPUT_CENTS, OUTPUT_CENTS = 3e-4, 15e-4  # a token of Claude Sonnet 4.5
PADDING = {"large": 100_000}
HELD_EVENTS = 3  # what comes before the gate
_GZIP = (("content-type", "application/json"), ("content-encoding", "gzip"))


@dataclass(frozen=True, slots=True)
class Plan:
    """A call that nothing disturbs: ``response`` is the body after content-decoding."""

    number: int
    kind: Kind
    request: bytes
    status: int
    response: bytes
    cents: float

    @property
    def tries_again(self) -> bool:
        """Return whether its client tries again as SDKs do, with the same body."""
        return self.number % 4 == 1

    @property
    def keeps_connection(self) -> bool:
        return self.number % 3 != 0


@lru_cache(maxsize=2048)
def make_plan(number: int) -> Plan:
    """Return the plan of a call."""
    kind = KINDS[number % len(KINDS)]
    output = number % 50 + 1
    body = {"model": "claude-sonnet-4-5", "max_tokens": number + 1, "messages": []}
    if kind not in ("document", "gzip"):
        body["stream"] = True
    body["messages"] = [{"role": "user", "content": f"{number} " + "z" * PADDING.get(kind, 500)}]
    status, cents = 200, INPUT_TOKENS * INPUT_CENTS + output * OUTPUT_CENTS
    if kind == "error":
        status, cents = 529, 0.0
        response = error_json("overloaded_error", f"overloaded at {number}")
    elif kind in ("document", "gzip"):
        response = message_json(f"text of {number}", output_tokens=output)
    else:
        response = b"".join(_events(number))
    return Plan(number, kind, json.dumps(body).encode(), status, response, cents)


def make_script(plan: Plan, gate: Gate) -> Script:
    """Return what upstream responds; that of a held call stands at the gate in its middle."""
    if plan.kind == "error":
        return answer(plan.status, plan.response)
    if plan.kind == "document":
        return answer(200, plan.response)
    if plan.kind == "gzip":
        return answer(200, gzip.compress(plan.response), _GZIP)
    events = _events(plan.number)
    if plan.kind == "held":
        return sse([*events[:HELD_EVENTS], gate, *events[HELD_EVENTS:]])
    return sse(events)


def _events(number: int) -> list[bytes]:
    texts = [f"text {part} of {number} " + "y" * 200 for part in range(4)]
    return message_events(texts, output_tokens=number % 50 + 1)
