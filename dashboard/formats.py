"""Template filters for money, durations, tokens and outcomes."""

from dataclasses import dataclass
from typing import Literal

from jinja2 import Environment
from markupsafe import Markup, escape

from dashboard import moments
from dashboard.addresses import call_address, row_address, session_address
from dashboard.drawing import bar_width
from metering import formats as metering_formats
from metering.refusals import STOP_REASON as REFUSAL
from metering.token_counts import TokenCounts
from runtime.safe_text import reveal

type Kind = Literal["ok", "refused", "cut", "bad"]


@dataclass(frozen=True, slots=True)
class Mark:
    """An outcome for display: its CSS class and its label."""

    kind: Kind
    label: str


_MARKS: dict[str, Mark] = {
    "complete": Mark("ok", "complete"),
    "client_disconnected": Mark("cut", "cut by the client"),
    "proxy_restarted": Mark("cut", "proxy restarted"),
    "upstream_interrupted": Mark("bad", "interrupted"),
    "upstream_error": Mark("bad", "error"),
    "upstream_unreachable": Mark("bad", "unreachable"),
    "upstream_timeout": Mark("bad", "timed out"),
}


_REFUSED = Mark("refused", "refused")
_FIRST_ERROR = 400  # of the status codes


def outcome_label(outcome: str) -> str:
    """Return the label of an outcome; an unknown outcome is returned unchanged."""
    mark = _MARKS.get(outcome)
    return outcome if mark is None else mark.label


def name_failure(outcome: str, status_code: int | None, error_type: str | None) -> str:
    """Return why a call failed: the status and type of an error, else the outcome."""
    label = outcome_label(outcome)
    kind = "" if error_type in (None, outcome) else error_type
    if status_code is not None and status_code >= _FIRST_ERROR:
        return f"{status_code} {kind or label}"
    if outcome == "upstream_error":
        return kind or label
    return f"{label}: {kind}" if kind else label


def shorten_model(name: str) -> str:
    """Return the name of a model without "claude-" and without its date."""
    parts = name.removeprefix("claude-").split("-")
    return "-".join(part for part in parts if not (len(part) == 8 and part.isdigit()))


def outcome_mark(
    outcome: str | None, status_code: int | None = None, stop_reason: str | None = None
) -> Mark:
    """Return the mark of an outcome, with the status code if it is not 200.

    A response that the model refused is complete, and has a mark of its own."""
    if outcome == "complete" and stop_reason == REFUSAL:
        return _REFUSED
    mark = _MARKS.get(outcome or "", Mark("cut", outcome or "unknown"))
    if status_code is None or status_code == 200:
        return mark
    return Mark(mark.kind, f"{mark.label} {status_code}")


def finalize(value: object) -> object:
    """Return the value that a template writes, with invisible characters of a text made visible.

    Jinja calls it for each ``{{ … }}`` of every page, so no page can forget it. ``Markup`` stays
    unchanged: it comes from templates, which did the same, or from code that uses ``reveal`` itself."""
    if type(value) is not str or (value.isascii() and value.isprintable()):
        return value
    return reveal(value)


def format_size(count: int | None) -> str:
    """Return a size in bytes in the form that our forms and options accept: ``20GB``. "" for None."""
    if count is None:
        return ""
    units = ((1000**4, "TB"), (1000**3, "GB"), (1000**2, "MB"), (1000, "KB"))
    return next((f"{count // size}{unit}" for size, unit in units if count % size == 0), str(count))


def as_typed(value: object) -> Markup:
    """Return a value escaped for HTML and otherwise unchanged, for form fields that send it back."""
    return escape(value)


FILTERS = {
    "as_typed": as_typed,
    "bytes_of": metering_formats.format_bytes,
    "size_of": format_size,
    "cents": metering_formats.format_cents,
    "cents_change": metering_formats.format_cents_change,
    "cents_for_column": metering_formats.format_cents_for_column,
    "signed_cents": metering_formats.format_signed_cents,
    "count_change": metering_formats.format_count_change,
    "duration": metering_formats.format_duration,
    "tokens": metering_formats.format_tokens,
    "count_of": metering_formats.format_count,
    "ordinal": metering_formats.format_ordinal,
    "number_of": metering_formats.format_number,
    "prompt_of": metering_formats.format_prompt,
    "cache_share": metering_formats.format_cache_share,
    **moments.FILTERS,
    # The words of pages: three decimals for calls, two for sums.
    "call_cost": metering_formats.format_call_cost,
    "sum_cost": metering_formats.format_sum_cost,
    "some_cost": metering_formats.format_some_cost,
    "change_of": metering_formats.format_change,
    "per_cent": metering_formats.format_per_cent,
    "short_tokens": metering_formats.format_short_tokens,
    "lasted": metering_formats.format_lasted,
    "bar_width": bar_width,
    "short_model": shorten_model,
}
GLOBALS = {
    "call_address": call_address,
    "row_address": row_address,
    "session_address": session_address,
    "outcome_mark": outcome_mark,
    "token_counts": TokenCounts.from_row,
}


def add_filters(environment: Environment) -> None:
    """Add the filters and functions of templates, such as ``{{ cost | cents }}``, to ``environment``.

    Control and bidirectional characters are written by name in all output. Call it before the first
    template is compiled."""
    environment.finalize = finalize
    environment.filters.update(FILTERS)
    environment.globals.update(GLOBALS)
