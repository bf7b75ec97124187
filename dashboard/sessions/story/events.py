"""Events between the turns of a session: cache breaks, compactions, failed calls, pauses, changes of
model, warnings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dashboard.cache_breaks import describe_cause
from dashboard.formats import outcome_label
from metering.formats import (
    format_call_cost,
    format_count,
    format_duration,
    format_short_tokens,
    format_some_cost,
)
from runtime.extension_values import CallNotice
from store.traces.sessions.steps import Step

LONG_PAUSE_MS = 5 * 60_000.0  # the usual life of a prompt cache
READS = "cache_read"  # the component

type EventKind = Literal["break", "compact", "fail", "pause", "model", "warning"]


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a sentence, bold or not."""

    text: str
    is_bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A line between turns, about the call ``step``. ``link`` is the text of its link, "" for none;
    ``address`` is the target of the link if it is not the page of that call. ``number`` is set if the
    event stands for a turn itself."""

    kind: EventKind
    step: Step
    runs: tuple[Run, ...]
    price: str = ""
    link: str = ""
    address: str = ""
    number: int | None = None

    shape: ClassVar = "event"

    @property
    def words(self) -> str:
        """Return the sentence as plain text."""
        return "".join(run.text for run in self.runs)


def make_events(step: Step, before: Sequence[Step], after: Sequence[Step]) -> list[Event]:
    """Return the events that are shown before the line of a call.

    ``before`` and ``after`` are calls of the same agent in order of time. If the call failed or is a
    compaction, the last event replaces its line."""
    found = [
        _find_pause(step),
        _find_change_of_model(step, before),
        _find_break(step),
        _find_failure(step, after),
        _find_compaction(step, before, after),
    ]
    return [event for event in found if event is not None]


def show_notice(step: Step, notice: CallNotice) -> Event:
    """Return the event for an extension's warning about a call."""
    return Event(
        kind="warning",
        step=step,
        runs=(Run(notice.text, is_bold=True),),
        link=notice.words,
        address=notice.address,
    )


def _find_pause(step: Step) -> Event | None:
    if step.idle_ms <= LONG_PAUSE_MS:
        return None
    words = f"{format_pause(step.idle_ms)} pause"
    return Event(kind="pause", step=step, runs=(Run(words),))


def format_pause(milliseconds: float) -> str:
    """Return a duration in whole minutes: ``55 min``, ``2 h 05 min``, ``3 days``."""
    minutes = round(milliseconds / 60_000)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02d} min" if hours < 48 else f"{hours // 24} days"


def _find_change_of_model(step: Step, before: Sequence[Step]) -> Event | None:
    if step.is_side_call or step.is_failed or step.is_compaction:
        return None
    earlier = _find_last_turn(before)
    old, new = (None if each is None else each.turn.model for each in (earlier, step))
    if old is None or new is None or old == new:
        return None
    return Event(
        kind="model",
        step=step,
        runs=(Run("From here on "), Run(new, is_bold=True), Run(f" in place of {old}")),
    )


def _find_break(step: Step) -> Event | None:
    found = step.turn.cache_break
    if found is None:
        return None
    again = (step.turn.tokens.cache_creation_input_tokens or 0) >= found.tokens
    about = "about " if found.estimated else ""
    price = "" if found.extra_cost_cents is None else format_some_cost(found.extra_cost_cents)
    more = f": {price} more than reading them." if price else "."
    return Event(
        kind="break",
        step=step,
        runs=(
            Run(f"{describe_cause(found).removesuffix('.')}. {about.capitalize()}"),
            Run(f"{format_count(found.tokens)} tokens", is_bold=True),
            Run(f" were {'written' if again else 'paid for'} again{more}"),
        ),
        price=f"{price} more" if price else "",
        link="Why and how measured",
    )


def _find_failure(step: Step, after: Sequence[Step]) -> Event | None:
    if not step.is_failed:
        return None
    turn = step.turn
    status = str(turn.status_code) if turn.status_code and turn.status_code != 200 else ""
    error = "" if turn.error_type == turn.outcome else turn.error_type
    name = " ".join(filter(None, (status, error))) or outcome_label(turn.outcome)
    source = " from upstream" if turn.outcome == "upstream_error" else ""
    billed = (
        "Not billed." if not turn.cost_cents else f"Billed: {format_call_cost(turn.cost_cents)}."
    )
    return Event(
        kind="fail",
        step=step,
        runs=(Run(name, is_bold=True), Run(f"{source}{_tell_retry(step, after)} {billed}")),
        price=format_some_cost(turn.cost_cents),
        link="Open",
    )


def _tell_retry(step: Step, after: Sequence[Step]) -> str:
    """Return whether and when the client sent a failed call again, as the end of a sentence.

    A call with the same number of messages counts as the same call."""
    again = next((each for each in after if not each.is_side_call), None)
    if again is None or again.turn.message_count != step.turn.message_count:
        return "; the client did not send it again."
    wait = format_duration(max((again.started - step.ended).total_seconds() * 1000, 0))
    what = "it" if again.number is None else f"turn {again.number}"
    return f"; the client waited {wait} and sent {what} again."


def _find_compaction(step: Step, before: Sequence[Step], after: Sequence[Step]) -> Event | None:
    if step.is_failed or step.is_side_call:
        return None
    if step.is_compaction:
        return _tell_compaction(step, step, _find_next_turn(after), by_client=True)
    if not step.turn.is_shortened:
        return None
    earlier = _find_last_turn(before)
    if any(each.is_compaction and not each.is_failed for each in _since(earlier, before)):
        return None
    return _tell_compaction(step, earlier, step, by_client=False)


def tell_going_on(step: Step, after: Sequence[Step]) -> str:
    """Return a note in which turn work continues after a compaction, "" if that is not so."""
    is_known = any(use.result_tokens is not None or use.problem for use in step.uses)
    following = _find_next_turn(after)
    if not step.uses or is_known or following is None:
        return ""
    between = after[: after.index(following)]
    if not (following.turn.is_shortened or any(each.is_compaction for each in between)):
        return ""
    return f"goes on after the compaction in turn {following.number}"


def _since(earlier: Step | None, before: Sequence[Step]) -> Sequence[Step]:
    """Return the calls after the turn ``earlier``, all if it is None."""
    return before if earlier is None else before[before.index(earlier) + 1 :]


def _tell_compaction(
    step: Step, full: Step | None, short: Step | None, *, by_client: bool
) -> Event | None:
    runs = [Run("Compacted")]
    for word, each in (("from", full), ("to", short)):
        if each is not None and each.turn.tokens.prompt:
            tokens = format_short_tokens(each.turn.tokens.prompt)
            runs += [Run(f" {word} "), Run(tokens, is_bold=True)]
    runs.append(Run(" tokens by the client." if len(runs) > 1 else " by the client."))
    if saved := _find_saving(full, short):
        runs.append(Run(f" Each turn after it costs about {format_call_cost(saved)} less."))
    return Event(
        kind="compact",
        step=step,
        runs=tuple(runs),
        price=format_some_cost(step.turn.cost_cents) if by_client else "",
        link="Read the summary" if by_client else "Open",
        number=step.number if by_client else None,
    )


def _find_saving(full: Step | None, short: Step | None) -> float | None:
    """Return the cents that each turn saves by reading a shorter prompt from the cache, None if unknown."""
    if full is None or short is None:
        return None
    reads = full.turn.tokens.cache_read_input_tokens
    gone = (full.turn.tokens.prompt or 0) - (short.turn.tokens.prompt or 0)
    cents = full.turn.cents.get(READS)
    return cents / reads * gone if cents and reads and gone > 0 else None


def _find_last_turn(steps: Sequence[Step]) -> Step | None:
    return next((each for each in reversed(steps) if _is_turn(each)), None)


def _find_next_turn(steps: Sequence[Step]) -> Step | None:
    return next((each for each in steps if _is_turn(each)), None)


def _is_turn(step: Step) -> bool:
    return not (step.is_failed or step.is_side_call or step.is_compaction)
