"""A server that gives agents read access to recorded calls, over the Model Context Protocol (MCP)."""
