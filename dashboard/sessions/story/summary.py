"""The summary of a session: the sentences at the beginning, and the sums beside its story."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.paid_parts import PaidPart, sum_parts
from dashboard.sessions.story.causes import count_words, list_causes
from dashboard.sessions.story.events import Run
from dashboard.sessions.story.story import Story
from metering.formats import format_number, format_some_cost
from store.traces.sessions.session_reader import Session
from store.traces.sessions.steps import Step, sum_cents

_HARDLY_CENTS = 0.0001  # what sums in another order differ by
COMMAND_TOOLS = frozenset({"Bash", "PowerShell"})
_LEAST_EXPLAINED = 2  # turns: of one the figures beside the story say as much
_LEAST_SHARE = 0.05  # of the cost that is told


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSum:
    """The sums of an agent. ``thread`` is its number among the subagents from 1, 0 for the main agent."""

    thread: int
    name: str
    turns: int
    cents: float


def split_cost(steps: Sequence[Step]) -> dict[PaidPart, float]:
    """Return the cost of calls by part (class of tokens, web searches) in US cents."""
    return sum_parts(item for step in steps for item in step.turn.cents.items())


def list_agents(story: Story) -> list[AgentSum]:
    """Return the sums of the main agent and of each subagent, each without its subagents."""
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
    """Return the sentences that say what a session cost, for what, and what failed."""
    prompts, turns = len(story.chapters), len(story.turns) + story.before
    runs = [
        Run(format_some_cost(session.cost_cents), is_bold=True),
        Run(f" for {format_number(prompts, 'prompt')} in {format_number(turns, 'turn')}."),
    ]
    if told := _tell_causes(story):
        runs.append(Run(f" {told}"))
    if imported := sum(step.turn.usage_source == "imported" for step in story.steps):
        calls = f"{format_number(imported, 'call')} of it {'is' if imported == 1 else 'are'}"
        runs.append(Run(f" {calls} imported from transcripts, which do not say who paid."))
    elif session.value_cents:
        runs.append(Run(f" {_tell_value(session)} not billed to you."))
    if failed := tell_failures(story.steps):
        runs.append(Run(f" {failed[0].upper()}{failed[1:]}."))
    return runs


def _tell_value(session: Session) -> str:
    """Return the part of the cost that a subscription or customer covers, as the beginning of a sentence."""
    is_all = session.value_cents >= session.cost_cents - _HARDLY_CENTS
    return "It is" if is_all else f"{format_some_cost(session.value_cents)} of it is"


def tell_failures(steps: Sequence[Step]) -> str:
    """Return how many commands, other tools and calls failed, as a sentence without full stop, or "".

    A command that ended with an error is named separately: a test may be meant to fail."""
    tools = sum(step.failures for step in steps)
    commands = sum(
        use.problem is not None and use.tool in COMMAND_TOOLS for step in steps for use in step.uses
    )
    calls = sum(step.is_failed for step in steps)
    others = max(tools - commands, 0)
    ended = f"{count_words(commands, 'command')} ended with an error" if commands else ""
    tool = "other tool" if commands else "tool"
    failed = [
        count_words(others, tool) if others else "",
        count_words(calls, "call") if calls else "",
    ]
    parts = [ended, f"{join_words(list(filter(None, failed)))} failed" if others or calls else ""]
    return ", and ".join(filter(None, parts))


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: ``a, b, and c``."""
    if len(words) < 3:
        return " and ".join(words)
    return f"{', '.join(words[:-1])}, and {words[-1]}"


def _tell_causes(story: Story) -> str:
    """Return the sentences that say what most of the cost was for, "" for a single turn."""
    if len(story.turns) < _LEAST_EXPLAINED:
        return ""
    causes = list_causes(story.steps, story.amounts)
    whole = sum(each.cents for each in causes)
    told = [
        each
        for each in causes
        if each.cents >= _LEAST_SHARE * whole or each.reason in ("break", "compact")
    ]
    words = [
        f"{each.words}{f' {format_some_cost(each.cents)}' if each.cents else ''}" for each in told
    ]
    if told and (cents := told[0].cents):
        words[0] = f"{told[0].words} cost {format_some_cost(cents)} of it"
    silent = [each for each in story.events if each.kind == "compact" and each.number is None]
    if silent:
        words.append(
            f"{count_words(len(silent), 'compaction', first='a')} without a call of its own"
        )
    sentences = [join_words(words), _tell_subagents(story)]
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences if each)


def _tell_subagents(story: Story) -> str:
    threads = story.threads
    if not threads:
        return ""
    cents = sum(each.cents for each in threads if each.depth == 1)
    return f"{count_words(len(threads), 'subagent')} took {format_some_cost(cents)} of it"
