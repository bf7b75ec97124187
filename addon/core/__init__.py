"""All that depends on the inside of mitmproxy: replacements for its functions, and its connections."""
