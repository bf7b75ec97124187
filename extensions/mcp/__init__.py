"""A server by which agents read what was recorded, over the Model Context Protocol (MCP)."""
