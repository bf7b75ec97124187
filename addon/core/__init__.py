"""What knows the inside of mitmproxy: replacements for functions of its core, and hands on its connections."""
