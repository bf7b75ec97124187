"""Rules about content that a conversation carries: unused tools, and results that occur twice."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from conversations.savings.calls import Chain, SavingsCall
from conversations.savings.contents import Contents, Part, Tool
from conversations.savings.kinds import (
    CLIENT_TOOLS,
    LARGE_RESULT,
    REPEATED_RESULT,
    UNUSED_TOOLS,
    Kind,
)
from conversations.savings.ledger import Ledger

MIN_CALLS, MIN_TOOL_TOKENS = 5, 1_000
MIN_REPEATED_TOKENS, LARGE_TOKENS = 200, 10_000
OWN_TOOLS = "tools of the program"
# Clients that bring tools of their own, which people cannot remove.
CLIENTS = {"claude-cli": "Claude Code"}


def list_carriers(chain: Chain, part: Part) -> list[SavingsCall]:
    """Return the calls of a conversation whose prompts had this part."""
    return [call for call in chain if (call.message_count or 0) > part.message]


def price_part(call: SavingsCall, part: Part) -> Decimal | None:
    """Return the cost in cents of a part of the prompt in one call, or None if a price is unknown."""
    total = Decimal(0)
    for billed_as, count in call.find_parts(part.start, part.tokens):
        price = call.price(billed_as)
        if price is None:
            return None
        total += count * price
    return total


def blame_unused_tools(
    chains: Iterable[Chain], contents: Mapping[int, Contents], ledger: Ledger
) -> None:
    """Enter in the ledger the cost of the tools of servers of which no tool was called in the session.

    ``contents`` are those of conversations by the id of their first call."""
    with_tools = [chain for chain in chains if any(call.tool_count for call in chain)]
    if any(chain[0].id not in contents for chain in with_tools):
        return  # what was called there is not known
    opened = [(chain, contents[chain[0].id]) for chain in with_tools]
    called = frozenset[str]().union(*(found.called for _, found in opened))
    servers = {tool.server for _, found in opened for tool in found.tools if tool.name in called}
    for chain, found in opened:
        for subject, (kind, tools) in _group(found.tools, called, servers, chain).items():
            if len(chain) < MIN_CALLS or sum(t.part.tokens for t in tools) < MIN_TOOL_TOKENS:
                continue
            for call in chain:
                if call.tool_count == chain[-1].tool_count:
                    _claim(kind, subject, call, [tool.part for tool in tools], ledger)


def blame_repeated_results(chain: Chain, contents: Contents, ledger: Ledger) -> None:
    """Enter in the ledger the cost of results that are already in the conversation, byte for byte."""
    seen: set[bytes] = set()
    for result in contents.results:
        is_again = result.digest in seen
        seen.add(result.digest)
        if is_again and result.part.tokens >= MIN_REPEATED_TOKENS:
            for call in list_carriers(chain, result.part):
                _claim(REPEATED_RESULT, result.tool, call, [result.part], ledger)


def note_large_results(chain: Chain, contents: Contents, ledger: Ledger) -> None:
    """Note the cost of large results. That is no saving, so no tokens are claimed."""
    for result in contents.results:
        if result.part.tokens >= LARGE_TOKENS:
            for call in list_carriers(chain, result.part):
                cents = price_part(call, result.part)
                ledger.note(LARGE_RESULT, call, result.part.tokens, cents, result.tool)


def _group(
    tools: Sequence[Tool], called: frozenset[str], servers: set[str | None], chain: Chain
) -> dict[str, tuple[Kind, list[Tool]]]:
    """Return the tools that were never called, by MCP server.

    Tools without a server are listed as those of the client or of the program."""
    client = CLIENTS.get((chain[-1].client or "").partition("/")[0])
    groups: dict[str, tuple[Kind, list[Tool]]] = {}
    for tool in tools:
        if tool.name in called or (tool.server is not None and tool.server in servers):
            continue
        is_client = tool.server is None and client is not None
        subject = tool.server or client or OWN_TOOLS
        kind = CLIENT_TOOLS if is_client else UNUSED_TOOLS
        groups.setdefault(subject, (kind, []))[1].append(tool)
    return groups


def _claim(
    kind: Kind, subject: str, call: SavingsCall, parts: Iterable[Part], ledger: Ledger
) -> None:
    tokens, cents = 0, Decimal(0)
    is_known = True
    for start, count in _merge(parts):
        granted, price = ledger.take_place(call, start, count)
        tokens += granted
        cents += price or 0
        is_known = is_known and price is not None
    ledger.note(kind, call, tokens, cents if is_known else None, subject)


def _merge(parts: Iterable[Part]) -> list[tuple[int, int]]:
    """Return parts as (first token, number of tokens), with adjacent ones merged."""
    merged: list[tuple[int, int]] = []
    for part in parts:
        if merged and sum(merged[-1]) == part.start:
            merged[-1] = merged[-1][0], merged[-1][1] + part.tokens
        else:
            merged.append((part.start, part.tokens))
    return merged
