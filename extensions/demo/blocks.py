"""Content blocks of the Messages API, and scripted responses made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

type Block = dict[str, Any]


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking(thoughts: str) -> Block:
    return {"type": "thinking", "thinking": thoughts, "signature": "ZGVtbyBzaWduYXR1cmU="}


def tool_use(block_id: str, name: str, **arguments: Any) -> Block:
    return {"type": "tool_use", "id": f"toolu_{block_id}", "name": name, "input": arguments}


def tool_result(block_id: str, words: str, *, failed: bool = False) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": f"toolu_{block_id}", "content": words}
    return result | {"is_error": True} if failed else result


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A response of the model. ``cut_after`` ends a stream after that share of its events, as an
    upstream does that fails in the middle; after ``hold_after`` it stands still until the client leaves.
    ``refusal`` is the category in which the model declined."""

    content: Sequence[Block]
    web_searches: int = 0
    cut_after: float | None = None
    hold_after: float | None = None
    refusal: str | None = None

    @property
    def stop_reason(self) -> str:
        if self.refusal:
            return "refusal"
        is_tool_call = any(block["type"] == "tool_use" for block in self.content)
        return "tool_use" if is_tool_call else "end_turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error of the upstream."""

    status: int
    error_type: str
    message: str


type Reply = Message | Failure

OVERLOADED = Failure(status=529, error_type="overloaded_error", message="Overloaded")
RATE_LIMITED = Failure(
    status=429,
    error_type="rate_limit_error",
    message="This request would exceed your organization's rate limit of 50 requests per minute.",
)


def reply(*content: Block) -> Message:
    return Message(content=content)
