"""The agents of a session as a tree, with the share of each in the cost."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from metering.formats import UNKNOWN
from store.traces.sessions.session_reader import Agent

MAX_DEPTH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An agent with its place in the tree: 0 is the main agent. ``share`` is a percentage."""

    agent: Agent
    depth: int
    share: str


def make_tree(agents: Sequence[Agent]) -> list[Node]:
    """Return the agents in the order of the tree: each is followed by its subagents.

    An agent whose parent has no calls, or that is below itself, is one of the main agent's."""
    total = sum(agent.cost_cents for agent in agents)
    ids = {agent.agent_id for agent in agents}
    children: defaultdict[str | None, list[Agent]] = defaultdict(list)
    for agent in agents:
        if agent.agent_id is not None:
            parent = agent.parent_agent_id
            children[parent if parent in ids and parent != agent.agent_id else None].append(agent)
    main = [agent for agent in agents if agent.agent_id is None]
    nodes: dict[str | None, Node] = {}

    def add(agent: Agent, depth: int) -> None:
        if agent.agent_id in nodes:
            return
        nodes[agent.agent_id] = Node(
            agent=agent, depth=min(depth, MAX_DEPTH), share=_share(agent.cost_cents, total)
        )
        for child in children[agent.agent_id]:
            add(child, depth + 1)

    for agent in (*main, *children[None], *agents):  # the last: those that are in a circle
        add(agent, 0 if agent.agent_id is None else 1)
    return list(nodes.values())


def _share(cents: float, total: float) -> str:
    return f"{100 * cents / total:.0f}%" if total > 0 else UNKNOWN
