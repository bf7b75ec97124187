"""Turns for tests of the story: one a minute, with what they did."""

from dataclasses import dataclass, field

from dashboard.sessions.story.story import Story, tell_story
from metering.token_counts import TokenCounts
from store.traces.calls.cache_breaks import CacheBreak
from store.traces.calls.tool_uses import StoredUse
from store.traces.sessions.deeds import Deeds
from store.traces.sessions.session_reader import Turn

BREAK = CacheBreak(
    previous_entry_id="e1",
    method=1,
    prefix_tokens=80_000,
    read_tokens=0,
    tokens=70_557,
    gap_ms=1_000,
    extra_cost_cents=41.0,
    estimated=False,
    found_by="chain",
    cause="tools",
    detail="The cache broke at the tools: “create_issue” was added.",
    upstream_reason=None,
    upstream_tokens=None,
)


def at(minute: float) -> str:
    """Return an instant of a morning."""
    seconds = round(minute * 60)
    return f"2026-03-01T{9 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000Z"


def use(tool: str | None, target: str | None = None, **fields: object) -> StoredUse:
    return StoredUse(tool=tool, target=target, **fields)  # type: ignore[arg-type]


def make_turn(number: int, minute: float | None = None, **fields: object) -> Turn:
    values: dict[str, object] = {
        "id": number,
        "entry_id": f"e{number}",
        "agent_id": None,
        "parent_agent_id": None,
        "created_at": at(number if minute is None else minute),
        "model": "opus",
        "request_model": "opus",
        "outcome": "complete",
        "status_code": 200,
        "error_type": None,
        "stop_reason": "end_turn",
        "usage_source": "final",
        "message_count": number,
        "title_text": None,
        "request_class": "main",
        "prompt_id": "p1",
        "duration_ms": 1_000.0,
        "ttfb_ms": 100.0,
        "cost_cents": 1.0,
        "estimated_cents": None,
        "tokens": TokenCounts(input_tokens=10, output_tokens=20, cache_read_input_tokens=1_000),
        "new_messages": 2,
        "cents": {"cache_read": 0.5, "output": 0.5},
        "previous_id": None,
        "failed_tools": None,
        "changed_by_upstream": None,
        "cache_break": None,
    }
    return Turn(**{**values, **fields})  # type: ignore[arg-type]


@dataclass
class Session:
    """Collects turns with what they did, in the order of time."""

    turns: list[Turn] = field(default_factory=list)
    uses: dict[int, list[StoredUse]] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)

    def add(
        self,
        *uses: StoredUse,
        said: str | None = None,
        agent_type: str | None = None,
        minute: float | None = None,
        **fields: object,
    ) -> Turn:
        number = len(self.turns) + 1
        turn = make_turn(number, minute, **fields)
        self.turns.append(turn)
        if uses:
            self.uses[number] = list(uses)
        if said:
            self.said[number] = said
        if agent_type:
            self.types[number] = agent_type
        return turn

    def tell(self, before: int = 0) -> Story:
        deeds = Deeds(uses=self.uses, said=self.said, agent_types=self.types)
        return tell_story(self.turns, deeds, before)
