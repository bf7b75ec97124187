"""The uses of tools of recorded calls, as the table ``tool_uses`` has them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUse:
    """One use of a tool in a response. ``server`` is the MCP server, and ``target`` a file, a pattern, the
    first line of a command. ``problem`` says why it failed, and is None where it went well or its result is
    not known. What is not known is None."""

    tool: str | None
    server: str | None = None
    target: str | None = None
    problem: str | None = None
    result_tokens: int | None = None
    plus: int | None = None
    minus: int | None = None
