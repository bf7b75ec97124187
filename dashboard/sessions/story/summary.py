"""The summary of a session: its first sentences, and the sums beside its story."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.paid_parts import PaidPart, find_part, sum_parts
from dashboard.sessions.story.events import Event, Run
from dashboard.sessions.story.story import Story
from metering.formats import format_count, format_number, format_some_cost
from store.traces.sessions.session_reader import Session
from store.traces.sessions.steps import Step, sum_cents

_HARDLY_CENTS = 0.0001  # what sums in another order differ by
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidFor:
    """The cost of one part. ``x`` and ``width`` are its place in a bar, in per cent."""

    part: PaidPart
    cents: float
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSum:
    """The sums of an agent. ``thread`` is its place among the subagents from 1 on, 0 for the main one."""

    thread: int
    name: str
    turns: int
    cents: float


def split_cost(steps: Sequence[Step]) -> dict[PaidPart, float]:
    """Return what steps cost by part, in US cents."""
    return sum_parts(item for step in steps for item in step.turn.cents.items())


def list_paid_for(steps: Sequence[Step]) -> list[PaidFor]:
    """Return the parts that cost something, as they lie in a bar."""
    parts = split_cost(steps)
    whole, x = sum(parts.values()), 0.0
    found: list[PaidFor] = []
    for part, cents in parts.items():
        if cents > 0:
            width = 100 * cents / whole
            found.append(PaidFor(part=part, cents=cents, x=x, width=width))
            x += width
    return found


def list_agents(story: Story) -> list[AgentSum]:
    """Return the sums of the main agent and of each subagent, without its own subagents."""
    threads = story.threads
    main = [step for step in story.turns if step.agent_id is None]
    own = AgentSum(
        thread=0,
        name="Main agent",
        turns=len(main),
        cents=sum_cents(step for step in story.steps if step.agent_id is None),
    )
    subagents = [
        AgentSum(
            thread=place,
            name=each.kind,
            turns=sum(step.agent_id == each.agent_id for step in each.turns),
            cents=sum_cents(step for step in each.steps if step.agent_id == each.agent_id),
        )
        for place, each in enumerate(threads, 1)
    ]
    return [own, *subagents] if main else subagents


def make_lede(session: Session, story: Story) -> list[Run]:
    """Return the sentences that tell what a session cost and where it went wrong."""
    prompts, turns = len(story.chapters), len(story.turns) + story.before
    runs = [
        Run(format_some_cost(session.cost_cents), is_bold=True),
        Run(f" for {format_number(prompts, 'prompt')} in {format_number(turns, 'turn')}."),
    ]
    reads = split_cost(story.steps)[find_part("cache_read")]
    parts = [
        _tell_events([each for each in story.events if each.kind == "break"], "cache break"),
        _tell_events([each for each in story.events if each.kind == "compact"], "compaction"),
        _tell_subagents(story),
    ]
    carried = f"Carrying the context cost {format_some_cost(reads)} of it" if reads else ""
    others = [part for part in parts if part]
    if carried or others:
        told = [carried, *others] if carried else [f"Of it, {others[0]}", *others[1:]]
        runs.append(Run(f" {join_words(told)}."))
    if imported := sum(step.turn.usage_source == "imported" for step in story.steps):
        calls = f"{format_number(imported, 'call')} of it {'is' if imported == 1 else 'are'}"
        runs.append(Run(f" {calls} imported from transcripts, which do not say who paid."))
    elif session.value_cents:
        runs.append(Run(f" {_tell_value(session)} not billed to you."))
    if failed := tell_failures(story.steps):
        runs.append(Run(f" {failed[0].upper()}{failed[1:]} failed."))
    return runs


def _tell_value(session: Session) -> str:
    """Return how much of the cost a subscription or a customer covers."""
    is_all = session.value_cents >= session.cost_cents - _HARDLY_CENTS
    return "It is" if is_all else f"{format_some_cost(session.value_cents)} of it is"


def tell_failures(steps: Sequence[Step]) -> str:
    """Return how many tools and calls failed, in words, nothing where none did."""
    tools = sum(step.failures for step in steps)
    calls = sum(step.is_failed for step in steps)
    parts = [_count(tools, "tool") if tools else "", _count(calls, "call") if calls else ""]
    return " and ".join(filter(None, parts))


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: ``a, b, and c``."""
    if len(words) < 3:
        return " and ".join(words)
    return f"{', '.join(words[:-1])}, and {words[-1]}"


def _tell_events(events: Sequence[Event], noun: str) -> str:
    if not events:
        return ""
    known = [cents for each in events if (cents := _find_price(each))]
    price = f" {format_some_cost(sum(known))}" if known else ""
    return f"{_count(len(events), noun, first='a')}{price}"


def _find_price(event: Event) -> float | None:
    """Return what an event cost, in cents: a break what it cost more than reading."""
    if event.kind == "break":
        found = event.step.turn.cache_break
        return None if found is None else found.extra_cost_cents
    return event.step.turn.cost_cents if event.number is not None else None


def _tell_subagents(story: Story) -> str:
    threads = story.threads
    if not threads:
        return ""
    cents = sum(each.cents for each in threads if each.depth == 1)
    return f"{_count(len(threads), 'subagent', first='a')} {format_some_cost(cents)}"


def _count(count: int, noun: str, first: str = "one") -> str:
    if count == 1:
        return f"{first} {noun}"
    return f"{_WORDS[count] if count < len(_WORDS) else format_count(count)} {noun}s"
