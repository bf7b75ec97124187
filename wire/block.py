"""A block of content: of a message or the system prompt of a request, of a response, or of a tool
result.

A block of a response may still grow, by the deltas of its stream."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from wire.json_reading import as_list, as_object, as_text, parse_json

TEXT, THINKING, INPUT, SUMMARY = "text", "thinking", "partial_json", "content"
CALL: Final = "tool_use"
RESULT: Final = "tool_result"
CALL_KINDS = (CALL, "server_tool_use", "mcp_tool_use")
THINKING_KINDS = (THINKING, "redacted_thinking")
COMPACTION = "compaction"  # stands for what upstream has summed up
FALLBACK = "fallback"
MARKER = "cache_control"
# Fields that pages show in another way than as fields: of all blocks, of tools, calls and results.
OF_BLOCK = ("type", MARKER)
OF_TOOL = (*OF_BLOCK, "name", "description")
OF_CALL = (*OF_BLOCK, "id", "name", "input", "caller", "server_name")
OF_RESULT = (*OF_BLOCK, "tool_use_id", "content", "is_error", "caller")
CODE_EXECUTION: Final = "code_execution"  # upstream's tool, in versions and with names before it

type CacheTtl = Literal["5m", "1h"]


class Block:
    """A content block.

    ``value`` is the block in a document, normally an object, or as it began in a stream; ``fields`` are
    its fields. ``parts`` are the texts that deltas added, by field name, and ``citations`` those that
    deltas added."""

    __slots__ = ("citations", "fields", "parts", "value")

    def __init__(self, value: object) -> None:
        self.value = value
        self.fields: dict[str, object] = value if isinstance(value, dict) else {}
        self.parts: dict[str, list[str]] | None = None  # most blocks never grow
        self.citations: list[object] | None = None

    @property
    def kind(self) -> str:
        """Return upstream's type of the block, such as ``tool_use``; "" if it was lost."""
        kind = self.fields.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def is_fallback(self) -> bool:
        """Return whether another model takes over at this block."""
        return self.kind == FALLBACK

    @property
    def is_call(self) -> bool:
        """Return whether the block is a tool call, for the client or for upstream."""
        return is_call(self.kind)

    @property
    def is_result(self) -> bool:
        """Return whether the block is the result of a tool call."""
        return is_result(self.kind)

    @property
    def call_id(self) -> str:
        """Return the id of a tool call, also for its result; "" for other blocks."""
        if self.is_call:
            return as_text(self.fields.get("id"))
        return as_text(self.fields.get("tool_use_id")) if self.is_result else ""

    @property
    def runs_code(self) -> bool:
        """Return whether code in a container of upstream runs at this block.

        The block is the call of the code execution tool, or a tool call by such code."""
        if self.kind == "server_tool_use" and self.name.endswith(CODE_EXECUTION):
            return True
        return self.is_call and self.caller.startswith(CODE_EXECUTION)

    @property
    def caller(self) -> str:
        """Return the kind of caller of the tool, ``direct`` for the model; "" if it is not stated."""
        return as_text(as_object(self.fields.get("caller")).get("type"))

    @property
    def name(self) -> str:
        """Return the name of a tool, in its definition or in a call."""
        return as_text(self.fields.get("name"))

    @property
    def server_name(self) -> str:
        """Return the MCP server of a tool that upstream calls; "" for other blocks."""
        return as_text(self.fields.get("server_name"))

    @property
    def mcp_server_name(self) -> str:
        """Return the MCP server whose tools an entry in the list of tools represents; "" for others."""
        return as_text(self.fields.get("mcp_server_name"))

    @property
    def is_error(self) -> bool:
        """Return whether the block is the result of a tool call that failed."""
        return self.fields.get("is_error") is True

    @property
    def ttl(self) -> CacheTtl | None:
        """Return the lifetime in the cache marker: an hour, otherwise five minutes. None without a marker."""
        return find_ttl(self.fields)

    @property
    def stated_ttl(self) -> str | None:
        """Return the lifetime that the cache marker states, "" if it states none; None without a marker."""
        marker = self.fields.get(MARKER)
        return as_text(marker.get("ttl")) if isinstance(marker, dict) else None

    @property
    def citation_count(self) -> int:
        """Return the number of citations of a text."""
        return len(as_list(self.fields.get("citations"))) + len(self.citations or ())

    @property
    def return_code(self) -> int:
        """Return the exit status of a program that upstream ran, 0 if none is stated."""
        code = self.fields.get("return_code")
        return code if type(code) is int else 0

    @property
    def error_code(self) -> str:
        """Return the error code of a failed tool that upstream ran; "" for other blocks."""
        return as_text(self.fields.get("error_code"))

    @property
    def data(self) -> str:
        """Return the base64 or the text of an image or a document; "" if it is not in the block."""
        return as_text(as_object(self.fields.get("source")).get("data"))

    @property
    def is_plain_document(self) -> bool:
        """Return whether the data of a document is text."""
        return as_object(self.fields.get("source")).get("type") == TEXT

    @property
    def content(self) -> object:
        """Return the content of a tool result: a text, blocks, or an object of upstream."""
        return self.fields.get("content")

    def list_parts(self) -> list["Block"]:
        """Return the blocks in the content of a tool result."""
        return list_blocks(self.content)

    @property
    def input(self) -> object:
        """Return the input of a tool, or its text if that is not JSON, as in a block that was cut off."""
        if INPUT not in (self.parts or ()):
            return self.fields.get("input")
        written = self.added(INPUT)
        parsed = parse_json(written.encode())
        return written if parsed is None else parsed

    def add(self, name: str, text: str) -> None:
        """Append the text of a delta to a field."""
        self.parts = self.parts or {}
        self.parts.setdefault(name, []).append(text)

    def add_citation(self, citation: object) -> None:
        """Add a citation."""
        self.citations = self.citations or []
        self.citations.append(citation)

    def added(self, name: str) -> str:
        """Return the text that deltas added to a field, with characters split between two deltas joined."""
        parts = (self.parts or {}).get(name, [])
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        return join_surrogates(parts[0]) if parts else ""

    def text(self, name: str = TEXT) -> str:
        """Return the text of a field, "" if it is not text."""
        return as_text(self.fields.get(name)) + self.added(name)

    def to_fields(self) -> dict[str, object]:
        """Return the fields of the block in the form of a document that is not streamed."""
        fields = dict(self.fields)
        for name in self.parts or ():
            if name == INPUT:
                fields["input"] = self.input
            else:
                fields[name] = self.text(name)
        if self.citations:
            fields["citations"] = [*as_list(fields.get("citations")), *self.citations]
        return fields


def is_call(kind: str) -> bool:
    """Return whether blocks of this kind are tool calls. An unknown kind is recognised by its suffix."""
    return kind in CALL_KINDS or kind.endswith("_tool_use")


def is_result(kind: str) -> bool:
    """Return whether blocks of this kind are results of tool calls, such as ``web_search_tool_result``."""
    return kind == RESULT or kind.endswith("_tool_result")


def as_blocks(content: object) -> list[object]:
    """Return content in the form of a list of blocks: a text is the same as one text block."""
    if isinstance(content, str):
        return [{"type": TEXT, "text": content}]
    return content if isinstance(content, list) else [] if content is None else [content]


def list_blocks(content: object) -> list[Block]:
    """Return the blocks of a content."""
    return [Block(each) for each in as_blocks(content)]


def find_calls(contents: Iterable[object]) -> dict[str, Block]:
    """Return the tool calls in contents by their ids, since results have only the id.

    Other blocks are skipped without conversion: pages call this for all messages of a request."""
    blocks = (block for content in contents for block in as_list(content))
    return {
        as_text(block.get("id")): Block(block)
        for block in blocks
        if isinstance(block, dict) and is_call(as_text(block.get("type")))
    }


def read_ttl(marker: object) -> CacheTtl | None:
    """Return the lifetime in a cache marker: an hour or otherwise five minutes; None for any other value."""
    if not isinstance(marker, dict):
        return None
    return "1h" if marker.get("ttl") == "1h" else "5m"


def find_ttl(fields: Mapping[str, object]) -> CacheTtl | None:
    """Return the lifetime in the cache marker of a block, or None without a marker."""
    return read_ttl(fields[MARKER]) if MARKER in fields else None


def without_marker(fields: dict[str, object]) -> dict[str, object]:
    """Return the fields of a block without its cache marker: the same object if there is none."""
    if MARKER not in fields:
        return fields
    return {name: value for name, value in fields.items() if name != MARKER}


def join_surrogates(text: str) -> str:
    """Return a text with surrogate pairs joined, and lone surrogates replaced."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
