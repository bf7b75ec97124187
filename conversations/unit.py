"""A unit of a prompt: a tool, a block of the system prompt, or a block of a message."""

from typing import Literal, NamedTuple

from metering.tool_results import ToolResult
from wire.block import TEXT, THINKING_KINDS, CacheTtl

type Level = Literal["tools", "system", "messages"]
LEVELS: tuple[Level, ...] = ("tools", "system", "messages")

SETTINGS = "settings"  # the kind of the unit of a message's settings, which is no block


class Unit(NamedTuple):
    """One unit of a prompt.

    ``message`` and ``block`` count from 0 in the request; ``message`` is -1 outside of messages.
    ``size`` is in bytes of JSON, without signatures, and without image data beyond its weight in
    tokens. ``tool`` is the name in a tool call, ``tool_use_id`` the id of the tool call in both call
    and result, ``result`` the content of a result. ``is_reminder``: the model sees the unit only until
    the next message of the user."""

    level: Level
    message: int
    block: int
    role: str
    kind: str
    digest: bytes
    order: bytes
    size: int
    marker: CacheTtl | None
    images: int
    cites: bool
    tool: str = ""
    tool_use_id: str = ""
    result: ToolResult | None = None
    is_reminder: bool = False

    @property
    def is_error(self) -> bool:
        """Return whether the unit is the result of a tool that failed."""
        return self.result is not None and self.result.problem is not None

    @property
    def is_markable(self) -> bool:
        """Return whether the unit may have a cache marker: thinking, settings and empty texts may not."""
        return self.kind not in (*THINKING_KINDS, SETTINGS) and not (
            self.kind == TEXT and not self.size
        )
