"""The names of the items of a conversation."""

import pytest

from conversations.timeline import Item
from conversations.token_shares import Share
from conversations.xray import Span
from dashboard.context.session_page import name_item
from store.traces.calls.tool_uses import StoredUse
from tests.conversations.savings.calls import make_call

READ = StoredUse(tool="Read", target="/h/a/b.py")
OTHER = StoredUse(tool="Read", target="/h/a/c.py")
ISSUE = StoredUse(tool="get_issue", server="tracker", target="CAB-4")


def item_of(category, name, message, block=None):
    """Return an item that the call with five messages was the first to have."""
    span = Span(0, 9, category, name, message, block)
    share = Share(span=span, tokens=10, part="read")
    return Item(share=share, first=make_call(3, 3), calls=1, cents=1.0)


@pytest.mark.parametrize(
    ("item", "uses", "name"),
    [
        (item_of("tool_result", "Read", 4, 0), [READ], "b.py"),
        (item_of("tool_call", "Read", 3, 1), [READ], "b.py"),
        (item_of("tool_result", "Read", 4, 1), [READ, OTHER], "c.py"),
        (item_of("tool_call", "Read", 3, 1), [READ, OTHER], ""),
        (item_of("tool_result", "Read", 4, 5), [READ, READ], "b.py"),
        (item_of("tool_result", "mcp__tracker__get_issue", 4, 0), [ISSUE], "get_issue CAB-4"),
        (item_of("tool_result", "Read", 2, 0), [READ], ""),
        (item_of("tool_result", "Bash", 4, 0), [READ], ""),
        (item_of("user_text", None, 4, 0), [READ], ""),
        (item_of("system", None, None), [READ], ""),
        (item_of("tool_result", "Read", 4, 0), [], ""),
    ],
)
def test_item_is_named_after_what_its_tool_was_used_upon(item, uses, name):
    assert item.first.message_count == 5
    assert name_item(item, uses, "/h/a") == name
