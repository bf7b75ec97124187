"""The hook of the MCP server."""

from collections.abc import Mapping

from runtime.hooks import hookimpl


@hookimpl
def commands() -> Mapping[str, str]:
    return {"mcp": "extensions.mcp.commands"}
