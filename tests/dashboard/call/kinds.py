"""Contents with blocks of every kind, as clients send them and upstream does."""

import base64
from typing import Any

from tests.store.traffic import png

_PNG = base64.b64encode(png(2, 2)).decode()


def call(name: str, /, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": given}


def result(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content} | fields


def server(name: str, kind: str, content: Any, /, **given: Any) -> list[dict[str, Any]]:
    """Return a call of a tool of upstream with its result."""
    used = {"type": "server_tool_use", "id": "srvtoolu_1", "name": name, "input": given}
    return [used, {"type": kind, "tool_use_id": "srvtoolu_1", "content": content}]


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | fields


_PLAIN = {"type": "text", "media_type": "text/plain", "data": "Plain words.\nMore."}
_CITATIONS = [
    {
        "type": "char_location",
        "cited_text": "Grass is green.",
        "document_index": 0,
        "document_title": "Colours",
        "start_char_index": 0,
        "end_char_index": 15,
    },
    {
        "type": "web_search_result_location",
        "cited_text": "The sky is blue.",
        "url": "https://sky.example/a",
        "title": "Sky",
        "encrypted_index": "Eo8B",
    },
]

KINDS: dict[str, list[Any]] = {
    "text": [
        text("# Title\n\n1. one\n2. **two**\n\n```python\nx = 1\n```\n[link](https://a.example)")
    ],
    "text that Markdown would hide": [text("| a | b |\n|-|-|\n| 1 | 2 | hidden |")],
    "text with a marker": [text("Marked.", cache_control={"type": "ephemeral", "ttl": "1h"})],
    "text with citations": [text("Green and blue.", citations=_CITATIONS)],
    "text with a new field": [text("Words.", mood={"of": ["joy", "rest"]})],
    "thinking": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
    ],
    "command": [call("Bash", command="ls -la | wc", description="Count files", timeout=5)],
    "words of a command": [call("shell", command=["ls", "-la"])],
    "edit": [
        call("Edit", file_path="/a.py", old_string="x = 1\ny = 2", new_string="x = 3\ny = 2"),
        call("Edit", file_path="/a.py", old_string="same", new_string=""),
    ],
    "several edits": [
        call(
            "MultiEdit",
            file_path="/a.py",
            edits=[
                {"old_string": "one", "new_string": "two", "replace_all": True},
                {"old_string": "three", "new_string": "four"},
            ],
        )
    ],
    "written files": [
        call("Write", file_path="/new.py", content="import os\n\nprint(os)\n"),
        call("NotebookEdit", notebook_path="/n.ipynb", cell_id="c1", new_source="1 + 1"),
        call("create_file", path="/x", file_text="words"),
    ],
    "text editor": [
        call("str_replace_based_edit_tool", command="view", path="/a.py", view_range=[1, 10]),
        call(
            "str_replace_based_edit_tool",
            command="str_replace",
            path="/a",
            old_str="b",
            new_str="c",
        ),
        call(
            "str_replace_based_edit_tool",
            command="insert",
            path="/a",
            insert_line=2,
            insert_text="d",
        ),
    ],
    "patch": [call("apply_patch", patch="--- a.py\n+++ b.py\n@@ -1 +1 @@\n-old\n+new\n")],
    "to-do list": [
        call(
            "TodoWrite",
            todos=[
                {"content": "Read", "status": "completed", "activeForm": "Reading"},
                {
                    "content": "Write",
                    "status": "in_progress",
                    "activeForm": "Writing",
                    "priority": 3,
                },
                {"content": "Rest", "status": "pending", "activeForm": "Resting"},
            ],
        ),
        call("TodoWrite", todos=["odd", 5]),
    ],
    "subagent": [
        call(
            "Task",
            description="Look",
            prompt="Look **well**.\n\n- here\n- there",
            subagent_type="E",
        )
    ],
    "code": [call("execute", code="print(1)\n", language="python")],
    "input of any shape": [
        call(
            "mcp__maps__route", stops=[{"at": "Lisbon"}, {"at": "Porto"}], mode="rail", limit=None
        ),
        {"type": "tool_use", "id": "toolu_2", "name": "odd", "input": ["not", "an", "object"]},
        {"type": "tool_use", "id": "toolu_3", "name": "cut", "input": '{"path": "a'},
    ],
    "results": [
        result("total 0\nfile.py"),
        result("No such file", is_error=True),
        result('{"rows": [1, 2]}'),
        result(
            [
                text("Two parts."),
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": _PNG},
                },
            ]
        ),
        result([{"type": "tool_reference", "tool_name": "search_mail"}]),
        result(None),
        result({"odd": "object"}),
    ],
    "call and result": [call("Bash", command="make"), result("done")],
    "images": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_9"}},
        {"type": "image", "source": {"type": "hologram", "where": "there"}},
        {"type": "image"},
    ],
    "documents": [
        {"type": "document", "title": "Report", "context": "Of May", "source": _PLAIN},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"},
        },
        {"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}},
        {
            "type": "document",
            "source": {"type": "content", "content": [text("Inner words.")]},
            "citations": {"enabled": True},
        },
    ],
    "search result": [
        {
            "type": "search_result",
            "source": "https://a.example/page",
            "title": "Found",
            "content": [text("What was found.")],
            "citations": {"enabled": True},
        }
    ],
    "container upload": [{"type": "container_upload", "file_id": "file_7"}],
    "web search": server(
        "web_search",
        "web_search_tool_result",
        [
            {
                "type": "web_search_result",
                "title": "Sky",
                "url": "https://sky.example",
                "page_age": "2 days",
                "encrypted_content": "Eo8B",
            }
        ],
        query="why is it blue",
    ),
    "web search that failed": server(
        "web_search",
        "web_search_tool_result",
        {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    ),
    "web fetch": server(
        "web_fetch",
        "web_fetch_tool_result",
        {
            "type": "web_fetch_result",
            "url": "https://a.example",
            "retrieved_at": "2026-01-02",
            "content": {"type": "document", "title": "Page", "source": _PLAIN},
        },
        url="https://a.example",
    ),
    "code execution": [
        *server(
            "bash_code_execution",
            "bash_code_execution_tool_result",
            {
                "type": "bash_code_execution_result",
                "stdout": "1\n2\n",
                "stderr": "warning: odd",
                "return_code": 1,
                "content": [{"type": "bash_code_execution_output", "file_id": "file_3"}],
            },
            command="seq 2",
        ),
        *server(
            "text_editor_code_execution",
            "text_editor_code_execution_tool_result",
            {
                "type": "text_editor_code_execution_view_result",
                "file_type": "text",
                "content": "def f():\n    pass",
                "num_lines": 2,
            },
            command="view",
            path="/f.py",
        ),
    ],
    "MCP": [
        {
            "type": "mcp_tool_use",
            "id": "m1",
            "name": "echo",
            "server_name": "parrot",
            "input": {"say": "hi"},
        },
        {
            "type": "mcp_tool_result",
            "tool_use_id": "m1",
            "is_error": False,
            "content": [text("hi hi")],
        },
    ],
    "advice and tool search": [
        *server(
            "advisor", "advisor_tool_result", {"type": "advisor_result", "text": "Do **this**."}
        ),
        *server(
            "tool_search",
            "tool_search_tool_result",
            {
                "type": "tool_search_tool_search_result",
                "tool_references": [{"type": "tool_reference", "tool_name": "mail"}],
            },
            query="mail",
        ),
    ],
    "compaction and fallback": [
        {"type": "compaction", "content": "## Summary\n\nWe talked.", "encrypted_content": "Eo8B"},
        {"type": "compaction", "content": None, "encrypted_content": "Eo8B"},
        {
            "type": "fallback",
            "from": {"model": "claude-a"},
            "to": {"model": "claude-b"},
            "trigger": {"type": "refusal", "category": "cyber"},
        },
    ],
    "kinds from the future": [
        {"type": "hologram", "depth": 3, "light": {"red": "much"}},
        {"no": "type"},
        {"type": 5},
        {
            "type": "weather_tool_result",
            "tool_use_id": "x",
            "content": {"type": "rain", "mm": 3, "list": [1]},
        },
        {"type": "weather_tool_result", "tool_use_id": "x", "content": {"odd": "words"}},
        {"type": "weather_tool_use", "id": "w", "name": "rain", "input": {"where": "Bergen"}},
    ],
}
