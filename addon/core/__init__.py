"""The code that depends on internals of mitmproxy: replacements for its functions, and its
connections."""
