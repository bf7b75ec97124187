"""A request whose fields are read only on demand. Never raises, whatever the document contains."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple, Self

from wire.block import (
    MARKER,
    Block,
    CacheTtl,
    as_blocks,
    is_result,
    list_blocks,
    read_ttl,
    without_marker,
)
from wire.json_reading import (
    as_list,
    as_object,
    as_objects,
    as_text,
    clean_text,
    parse_object,
)

# What tells of the client, at the beginning of the system prompt, and what a compaction leaves as the first
# text of the messages.
ATTRIBUTION = "x-anthropic-billing-header:"
CONTINUATION = "This session is being continued from a previous conversation"
MESSAGES = "messages"
PROMPT_FIELDS = ("tools", "system", MESSAGES)
# What stands before the messages in the prompt; of a message thread it is that of its first request.
FRONT_FIELDS = ("tools", "mcp_servers", "system")
_WEB_SEARCH = "web_search"
NO_SETTINGS: Mapping[str, object] = MappingProxyType({})
_OF_SERVER = ("name", "tool_configuration")  # its address and its token are no part of the prompt

type ThreadStep = Literal["create", "continue"]


class Thread(NamedTuple):
    """The role of a request in a message thread; ``previous_id`` names the message that it continues."""

    step: ThreadStep | None = None
    previous_id: str | None = None


NO_THREAD = Thread()


class StatedSettings(NamedTuple):
    """The settings stated in a request that decide which part of the cache it may read.

    Unstated texts are empty, other unstated values None. ``output_format`` is the schema of the
    response, ``chosen_tool`` the tool that the model has to use."""

    speed: str = ""
    effort: str = ""
    output_format: object = None
    tool_choice: str = ""
    chosen_tool: str | None = None
    forbids_parallel_tools: bool = False
    thinking: str = ""
    thinking_budget: int | None = None


NOTHING_STATED = StatedSettings()
_STATED = frozenset(("speed", "output_config", "output_format", "tool_choice", "thinking"))


class Message(NamedTuple):
    """A message. ``content`` is a text or a list of blocks; ``is_complete``: it has role and content.

    ``settings`` apply to the turns from it on. ``is_reminder``: the model sees it only until the next
    message of the user."""

    role: str
    content: object
    is_complete: bool = True
    settings: Mapping[str, object] = NO_SETTINGS
    is_reminder: bool = False

    @property
    def blocks(self) -> list[Block]:
        """Return the blocks of its content."""
        return list_blocks(self.content)

    def normalize(self) -> tuple[str, list[object]]:
        """Return role and blocks without differences that the model does not see.

        These are whether a text is alone or in a block, and cache markers."""
        return self.role, _normalize(self.content)


class Tool(Block):
    """The definition of a tool."""

    __slots__ = ()

    @property
    def is_deferred(self) -> bool:
        """Return whether the tool is outside the prompt until the model finds it."""
        return self.fields.get("defer_loading") is True

    @property
    def is_web_search(self) -> bool:
        """Return whether the tool is upstream's web search, which is part of the system prompt."""
        return self.kind.startswith(_WEB_SEARCH)

    def load(self) -> "Tool":
        """Return the definition of the tool without deferred loading."""
        return Tool({name: self.fields[name] for name in self.fields if name != "defer_loading"})


class Request:
    """A parsed request for messages."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.fields = fields

    @classmethod
    def parse(cls, body: bytes) -> Self | None:
        """Return the request in a decoded body, or None if it is not a JSON object."""
        fields = parse_object(body)
        return None if fields is None else cls(fields)

    @property
    def front(self) -> dict[str, object]:
        """Return the fields for the part of the prompt before the messages, as they were sent."""
        return {name: self.fields[name] for name in FRONT_FIELDS if name in self.fields}

    @property
    def settings(self) -> dict[str, object]:
        """Return the fields that do not belong to the prompt."""
        return {name: self.fields[name] for name in self.fields if name not in PROMPT_FIELDS}

    @property
    def stated_settings(self) -> StatedSettings:
        """Return the stated settings that decide which part of the cache the request may read."""
        fields = self.fields
        if _STATED.isdisjoint(fields):  # as those of programs that are simple
            return NOTHING_STATED
        output, choice, thinking = (
            as_object(fields.get(name)) for name in ("output_config", "tool_choice", "thinking")
        )
        name, budget = choice.get("name"), thinking.get("budget_tokens")
        return StatedSettings(
            as_text(fields.get("speed")),
            as_text(output.get("effort")),
            output.get("format") or fields.get("output_format"),
            as_text(choice.get("type")),
            name if isinstance(name, str) else None,
            choice.get("disable_parallel_tool_use") is True,
            as_text(thinking.get("type")),
            budget if type(budget) is int else None,
        )

    @property
    def tools(self) -> list[Tool]:
        """Return the definitions of tools."""
        return [Tool(each) for each in as_list(self.fields.get("tools"))]

    @property
    def mcp_servers(self) -> list[Block]:
        """Return the part of the MCP servers that is in the prompt: names and enabled tools."""
        servers = as_objects(self.fields.get("mcp_servers"))
        return [
            Block({name: each[name] for name in _OF_SERVER if name in each}) for each in servers
        ]

    @cached_property
    def system(self) -> list[Block]:
        """Return the blocks of the system prompt."""
        return list_blocks(self.system_content)

    @property
    def system_content(self) -> object:
        """Return the system prompt as it was sent: a text or a list of blocks."""
        return self.fields.get("system")

    @property
    def has_attribution(self) -> bool:
        """Return whether the first block of the system prompt says which client this is.

        A system prompt that is a single text never does."""
        system = self.system_content
        return isinstance(system, list) and Block(next(iter(system), None)).text().startswith(
            ATTRIBUTION
        )

    @property
    def has_messages(self) -> bool:
        """Return whether the request has a list of messages, as every request for messages has."""
        return isinstance(self.fields.get("messages"), list)

    @cached_property
    def messages(self) -> list[Message]:
        """Return the messages."""
        return list(read_messages(as_list(self.fields.get("messages"))))

    @property
    def ttl(self) -> CacheTtl | None:
        """Return the lifetime for automatic caching, or None without it."""
        return read_ttl(self.fields.get(MARKER))

    @property
    def thread(self) -> Thread:
        """Return the role of the request in a message thread."""
        return read_thread(self.fields.get("thread"))

    @property
    def diagnosed_message_id(self) -> str | None:
        """Return the id of the message to whose request upstream should compare this one, or None."""
        return clean_text(as_object(self.fields.get("diagnostics")).get("previous_message_id"))


def read_messages(messages: Sequence[object]) -> Iterator[Message]:
    """Yield messages as values. An item that is not a message has no role, and is its own content."""
    for each in messages:
        if isinstance(each, dict):
            yield Message(
                as_text(each.get("role")),
                each.get("content"),
                "role" in each and "content" in each,
                as_object(each["output_config"]) if "output_config" in each else NO_SETTINGS,
                each.get("clear_at") == "next_user_message",
            )
        else:
            yield Message("", [each], False)


def read_thread(thread: object) -> Thread:
    """Return the content of the field ``thread`` of a request."""
    fields = as_object(thread)
    match fields.get("type"):
        case "create":
            return Thread("create")
        case "continue":
            return Thread("continue", as_text(fields.get("previous_message_id")) or None)
    return NO_THREAD


def _normalize(content: object) -> list[object]:
    return [_normalize_block(block) for block in as_blocks(content)]


def _normalize_block(block: object) -> object:
    if not isinstance(block, dict):
        return block
    bare = without_marker(block)
    if is_result(as_text(bare.get("type"))):
        # A part of a result has no results in it.
        parts = as_blocks(bare.get("content"))
        inner = [without_marker(each) if isinstance(each, dict) else each for each in parts]
        return bare | {"content": inner}
    return bare
