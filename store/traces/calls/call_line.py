"""A line of text for each call, for people who watch the terminal.

It is in ``store`` because two processes print it: the recorder as calls are recorded, and
``taximeter tail``.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict

from metering.entry import UsageLogEntry
from metering.formats import format_cents, format_count, format_milliseconds
from metering.refusals import STOP_REASON as REFUSAL
from metering.token_counts import TokenCounts
from runtime import clock
from runtime.json_lines import LogFormat, format_json_line
from runtime.safe_text import terminal_line

_UNKNOWN = "-"
_MAX_NAME = 80


def format_entry(entry: UsageLogEntry) -> str:
    """Return the line of a call: arrival (UTC), slug, model, tokens, cost, status, duration, problem.

    The problem is the outcome, if it is not success, or a refusal of the model. Example: ``2026-01-31
    14:03:27Z  default  claude-opus-5-5  1,204 in (980 cached)  88 out  $0.0123  200  2,310 ms``"""
    parts = [
        clock.format_line_time(clock.parse_instant(entry.created_at)),
        _format_name(entry.slug),
        _format_name(entry.model or entry.request_model),
        _tokens_in(entry.tokens),
        f"{format_count(entry.tokens.output_tokens, _UNKNOWN)} out{_mark(entry)}",
        format_cents(entry.cost_cents, _UNKNOWN),
        _UNKNOWN if entry.status_code is None else str(entry.status_code),
        format_milliseconds(entry.duration_ms, _UNKNOWN),
    ]
    if entry.outcome != "complete":
        parts.append(entry.outcome)
        if entry.error_type and entry.error_type != entry.outcome:
            parts[-1] += f" {_format_name(entry.error_type)}"
    elif entry.stop_reason == REFUSAL:
        parts.append("refused")
        if entry.refusal_category:
            parts[-1] += f" {_format_name(entry.refusal_category)}"
    return "  ".join(parts)


def format_entry_as_json(entry: UsageLogEntry) -> str:
    """Return the line of a call as a JSON object: the text as ``message``, and the figures as fields."""
    return format_json_line(
        "recorder",
        "info",
        format_entry(entry),
        entry_id=entry.entry_id,
        created_at=entry.created_at,
        slug=entry.slug,
        model=entry.model or entry.request_model,
        outcome=entry.outcome,
        status_code=entry.status_code,
        error_type=entry.error_type,
        duration_ms=entry.duration_ms,
        **asdict(entry.tokens),
        cost_cents=None if entry.cost_cents is None else float(entry.cost_cents),
        session_id=entry.session_id,
    )


LINE_FORMATS: Mapping[LogFormat, Callable[[UsageLogEntry], str]] = {
    "text": format_entry,
    "json": format_entry_as_json,
}


def _mark(entry: UsageLogEntry) -> str:
    is_marked = entry.usage_source in ("estimated", "imported")
    return f" ({entry.usage_source})" if is_marked else ""


def _tokens_in(tokens: TokenCounts) -> str:
    read = tokens.cache_read_input_tokens
    return f"{format_count(tokens.prompt, _UNKNOWN)} in{f' ({read:,} cached)' if read else ''}"


def _format_name(text: str | None) -> str:
    return terminal_line(text)[:_MAX_NAME] if text else _UNKNOWN
