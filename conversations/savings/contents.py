"""The contents of one request of a conversation, for the rules that need more than counts.

The last request of a conversation has everything that was ever in it, with the number of the
message of each part. The number of messages in an earlier call tells which parts it had too, so one
body is enough for a whole conversation. If an early message was edited meanwhile, the result is
slightly wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from conversations.cache_rules import ModelRules
from conversations.context import read_context
from conversations.prompt_bill import PromptBill
from conversations.savings.calls import Chain, SavingsCall
from conversations.token_shares import Share
from metering.tool_names import read_name
from metering.tool_uses import read_target
from wire.block import Block
from wire.json_reading import as_object, as_text
from wire.request import Request

MAX_PATH_CHARS = 160
_PATHS = ("file_path", "path", "notebook_path", "url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a prompt that begins at token ``start``.

    It is in all requests with more than ``message`` messages; ``message`` is -1 before the messages."""

    start: int
    tokens: int
    message: int = -1


class Used(NamedTuple):
    """A tool and the target of its use. "" stands for no server, and for no target."""

    server: str
    tool: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The definition of a tool."""

    name: str
    server: str | None
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A tool result. ``tool`` is the name of the tool with the path that it read; ``used`` is the tool
    with the target of its use."""

    tool: str
    used: Used
    digest: bytes
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The tools of a request, those that were called in it, and its tool results in order."""

    tools: Sequence[Tool]
    called: frozenset[str]
    results: Sequence[Result]


type Place = tuple[int, int]  # message and block


def choose_reference(chain: Chain) -> SavingsCall | None:
    """Return the call of a conversation whose body has most of it, or None if no body can be used."""
    with_body = [call for call in chain if call.request_length and call.tokens.total]
    return max(with_body, key=lambda call: (call.message_count or 0, call.began_at), default=None)


def read_contents(body: bytes, call: SavingsCall, cache_rules: ModelRules) -> Contents:
    """Return the contents of the request of a call. Never raises."""
    context = read_context(body, PromptBill(tokens=call.tokens, cents={}), call.model, cache_rules)
    places = _place(context.shares, context.added_before)
    asked, texts = _read_blocks(Request.parse(body))
    blocks: dict[Place, list[Part]] = {}
    tools: list[Tool] = []
    called: set[str] = set()
    for share, start in places:
        span = share.span
        if span.category == "tool" and span.name:
            part = Part(start=start, tokens=share.tokens)
            tools.append(Tool(name=span.name, server=span.server, part=part))
        elif span.category == "tool_call" and span.name:
            called.add(span.name)
        elif span.message is not None and span.category != "envelope":
            part = Part(start=start, tokens=share.tokens, message=span.message)
            blocks.setdefault((span.message, span.block or 0), []).append(part)
    results = [
        Result(
            tool=_name(asked[use_id]) if use_id in asked else "",
            used=_find_used(asked.get(use_id)),
            digest=digest,
            part=_join(blocks[place]),
        )
        for place, (use_id, digest) in texts.items()
        if place in blocks
    ]
    return Contents(tools=tools, called=frozenset(called), results=results)


def _place(shares: Sequence[Share], before: int) -> list[tuple[Share, int]]:
    """Return each span with the number of tokens before it. ``shares`` is in the order of the prompt."""
    places, start = [], before
    for share in shares:
        places.append((share, start))
        start += share.tokens
    return places


def _read_blocks(
    request: Request | None,
) -> tuple[dict[str, Block], dict[Place, tuple[str, bytes]]]:
    """Return the tool calls by id, and the tool results by place, each as (id of the tool call, digest)."""
    asked: dict[str, Block] = {}
    results: dict[Place, tuple[str, bytes]] = {}
    for number, message in enumerate(request.messages if request else ()):
        for place, block in enumerate(message.blocks):
            if block.is_call:
                asked[block.call_id] = block
            elif block.is_result:
                digest = blake2b(repr(block.content).encode("utf-8", "replace"))
                results[number, place] = block.call_id, digest.digest()
    return asked, results


def _name(call: Block) -> str:
    given = as_object(call.input)
    paths = (as_text(given.get(key)) for key in _PATHS)
    path = next((each for each in paths if each), "")[:MAX_PATH_CHARS]
    return f"{call.name} {path}".strip()


def _find_used(call: Block | None) -> Used:
    """Return the tool and target that a tool call names, empty if ``call`` is None."""
    if call is None:
        return Used("", "")
    name = read_name(call)
    return Used(name.server or "", name.tool or "", read_target(call) or "")


def _join(parts: Sequence[Part]) -> Part:
    """Return adjacent parts of one block merged into one."""
    tokens = sum(part.tokens for part in parts)
    return Part(start=parts[0].start, tokens=tokens, message=parts[0].message)
