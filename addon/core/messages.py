"""Explanations of errors of HTTP messages, in place of mitmproxy's.

mitmproxy's own text is for people who run mitmproxy: it names options, documentation and Python
functions that a client cannot know, and quotes received data at any length."""

import re

# The first that fits. Each looks for words of mitmproxy, which may stand beside a quotation.
_FAULTS = tuple(
    (re.compile(pattern, re.IGNORECASE), fault)
    for pattern, fault in (
        (r"\ABad HTTP|Unknown HTTP version|request scheme|no host header", "its first line"),
        (r"HTTP CONNECT request", "its method, for this proxy opens no tunnels"),
        (
            r"both transfer-encoding and content-length",
            "its length, which it gives by both Transfer-Encoding and Content-Length",
        ),
        (r"transfer-encoding", "its Transfer-Encoding"),
        (r"content-length|integer string", "its Content-Length"),
        (r"header", "a header line"),
        (r"\AHTTP/1 protocol error", "its body"),
    )
)


def name_fault(message: str) -> str:
    """Return a name for the part of an HTTP message that mitmproxy's error message is about."""
    return next((fault for pattern, fault in _FAULTS if pattern.search(message)), "its head")


def explain_request(status: int, message: str) -> str:
    """Return the text for a client whose request mitmproxy refused with ``status`` and ``message``."""
    if status >= 500:
        return "The request could not be finished."
    if status == 413:
        return "The request body is too large."
    return f"The request is not valid HTTP: there is a fault in {name_fault(message)}."


def explain_interruption(message: str) -> str:
    """Return a description of how an upstream connection ended before a response."""
    if message.startswith("unexpected server response"):
        return "the connection ended within the head of its response"
    return "the connection ended before its response"
