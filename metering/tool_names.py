"""The names of tools, which clients prefix with that of the MCP server: ``mcp__github__search``."""

from typing import NamedTuple

from wire.block import Block
from wire.json_reading import clean_text

_MCP, _BETWEEN = "mcp__", "__"


class ToolName(NamedTuple):
    """The name of a tool. ``server`` is None without an MCP server; ``tool`` is None if unknown."""

    server: str | None
    tool: str | None


def read_name(call: Block) -> ToolName:
    """Return the name of the tool that a block calls."""
    server, tool = split_name(call.name)
    return ToolName(clean_text(call.server_name or server), clean_text(tool))


def split_name(name: str) -> tuple[str, str]:
    """Return (MCP server, tool) from a combined name; the server is "" if there is none."""
    server, _, tool = name.removeprefix(_MCP).partition(_BETWEEN)
    return (server, tool) if name.startswith(_MCP) and server and tool else ("", name)
