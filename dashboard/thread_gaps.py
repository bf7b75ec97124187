"""The words for what is missing in the request of a call that continues a thread of messages."""

from store.traces.calls.threads import Gap

GAPS: dict[Gap, str] = {
    "missing": "a call of its thread is not recorded.",
    "not kept": "the bodies of a call of its thread were not kept.",
    "cut": "the response to a call of its thread was cut.",
    "too long": "its thread is too long to be put together here.",
}
