"""The results of message batches: lines of JSON, one for each request.

{"custom_id": "…", "result": {"type": "succeeded", "message": {…}}}
"""

from dataclasses import dataclass
from typing import Literal

import orjson

from wire.json_reading import as_object, as_text, clean_text, parse_object

type ResultType = Literal["succeeded", "errored", "canceled", "expired"]

_TYPES: dict[str, ResultType] = {
    name: name for name in ("succeeded", "errored", "canceled", "expired")
}
_BODIES: dict[ResultType, str] = {"succeeded": "message", "errored": "error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """A line of results. ``body`` is the JSON of the message or error, empty if the request never ran.

    ``request_id`` is upstream's id of the request, which only errors have."""

    custom_id: str
    type: ResultType
    body: bytes
    request_id: str | None = None

    @property
    def has_run(self) -> bool:
        """Return whether the upstream ran the request, which makes it a call."""
        return bool(self.body)


def parse_result(line: bytes) -> BatchResult | None:
    """Return the result in a line, or None for any other line."""
    document = parse_object(line) or {}
    custom_id, result = document.get("custom_id"), as_object(document.get("result"))
    kind = _TYPES.get(as_text(result.get("type")))
    if not isinstance(custom_id, str) or kind is None:
        return None
    if kind not in _BODIES:
        return BatchResult(custom_id=custom_id, type=kind, body=b"")
    body = result.get(_BODIES[kind])
    if not isinstance(body, dict):
        return None
    return BatchResult(
        custom_id=custom_id,
        type=kind,
        body=orjson.dumps(body),
        request_id=clean_text(body.get("request_id")),
    )
