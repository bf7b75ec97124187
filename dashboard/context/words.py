"""Titles and colours of the categories of a prompt, and titles of the parts of a bill."""

from collections.abc import Mapping

from conversations.prompt_bill import COMPONENTS
from conversations.token_shares import Part, Share
from conversations.xray import Category
from dashboard.call.addresses import body_address
from metering import components

TITLES: Mapping[Category, str] = {
    "tool": "Tools",
    "deferred_tool": "Deferred tools",
    "system": "System prompt",
    "attribution": "Attribution block",
    "memory": "Memory files",
    "reminder": "Reminders",
    "user_text": "User text",
    "assistant_text": "Assistant text",
    "system_message": "System messages",
    "tool_call": "Tool calls",
    "tool_result": "Tool results",
    "thinking": "Thinking",
    "image": "Images",
    "document": "Documents",
    "envelope": "Envelope",
    "unread": "Not read",
    "added": "Added by upstream",
}
ONE: Mapping[Category, str] = {
    "tool": "Tool",
    "deferred_tool": "Deferred tool",
    "memory": "Memory file",
    "reminder": "Reminder",
    "tool_call": "Call of",
    "tool_result": "Result of",
    "system_message": "System message",
    "image": "Image",
    "document": "Document",
}
NOTES: Mapping[Category, str] = {
    "deferred_tool": "no part of the prompt until the model asks for them",
    "attribution": "removed by upstream",
    "envelope": "keys, punctuation, ids, cache markers, signatures",
    "unread": "not valid JSON, or too much of it",
    "added": "the prompt for tools, and what is in no block",
}
PARTS: Mapping[Part, str] = {part: components.TITLES[name] for part, name in COMPONENTS.items()}

# Categories of a colour of their own, by name of the class. All others share one.
COLOURS: Mapping[Category, str] = {
    "tool": "tools",
    "system": "system",
    "memory": "memory",
    "reminder": "memory",
    "user_text": "user",
    "assistant_text": "assistant",
    "tool_call": "calls",
    "tool_result": "results",
    "thinking": "thinking",
    "image": "media",
    "document": "media",
}


def find_colour(category: Category) -> str:
    """Return the CSS class for the colour of a category."""
    return COLOURS.get(category, "rest")


def make_address(usage_id: int, share: Share) -> str:
    """Return the address of the page that shows the part of a call's request which a share is about."""
    request = body_address(usage_id, "request")
    if share.span.message is None:
        return f"{request}/front"
    number = share.span.message + 1
    return f"{request}/messages/{number}-{number}"


def describe_place(share: Share) -> str:
    """Return the place of a share in words: "message N", "tools" or "system prompt"."""
    span = share.span
    if span.message is not None:
        return f"message {span.message + 1}"
    return "tools" if span.category in ("tool", "deferred_tool") else "system prompt"
