"""The calls of a session, split by the prompts of a person."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from store.traces.sessions.steps import Step
from wire.title import is_continuation


@dataclass(slots=True, kw_only=True)
class Prompt:
    """A prompt with the calls that served it, including those of subagents, in the order of time."""

    title: str | None = None
    steps: list[Step] = field(default_factory=list)


def cut_prompts(steps: Sequence[Step]) -> list[Prompt]:
    """Return the prompts of a session.

    A prompt ends at a call of the main agent with another prompt id or, from clients that send no ids,
    with other words. The summary after which a client continues a shortened conversation does not begin
    a prompt. Calls of a subagent belong to the prompt of its first call; calls before the first prompt
    belong to the first prompt."""
    prompts: list[Prompt] = []
    of_agent: dict[str, Prompt] = {}
    last: Step | None = None
    for step in steps:
        is_asked = step.agent_id is None and not step.is_side_call and not step.is_compaction
        if not prompts or (is_asked and last is not None and _is_other(last, step)):
            prompts.append(Prompt())
        prompt = prompts[-1]
        if step.agent_id is not None:
            prompt = of_agent.setdefault(step.agent_id, prompt)
        prompt.steps.append(step)
        if is_asked:
            last = step
            prompt.title = prompt.title or step.turn.title_text
    for prompt in prompts:
        prompt.title = prompt.title or _find_title(prompt.steps)
    return prompts


def _is_other(last: Step, step: Step) -> bool:
    """Return whether a call of the main agent serves another prompt than ``last``."""
    if last.turn.prompt_id is not None and step.turn.prompt_id is not None:
        return last.turn.prompt_id != step.turn.prompt_id
    if last.turn.title_text is None or step.turn.title_text is None:
        return False
    is_same = last.turn.title_text == step.turn.title_text
    return not is_same and not is_continuation(step.turn.title_text)


def _find_title(steps: Sequence[Step]) -> str | None:
    """Return the first words of any call, for prompts that only subagents and side calls served."""
    return next((step.turn.title_text for step in steps if step.turn.title_text), None)
