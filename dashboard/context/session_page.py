"""``/sessions/<id>/context``: the growth of the prompts of a session, and the cost of their contents."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.exceptions import HTTPException
from starlette.responses import Response

from conversations.cache_rules import read_own_rules
from conversations.context import Context, read_context
from conversations.growth import Growth, read_growth
from conversations.prompt_bill import PromptBill
from conversations.savings.calls import Chain, SavingsCall, list_chains
from conversations.savings.stored_calls import make_call
from conversations.timeline import Item
from conversations.xray import Category
from dashboard.context import words
from dashboard.context.growth_chart import draw, sample
from dashboard.queries.page_request import PageRequest
from dashboard.sessions.opened import NO_SESSION
from dashboard.sessions.view import describe_tabs
from dashboard.what_was_done import find_root, name_object
from metering.tool_names import split_name
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.threads import read_whole_request
from store.traces.calls.tool_uses import StoredUse, read_uses_of
from store.traces.savings import savings_calls
from store.traces.sessions.deeds import read_deeds
from store.traces.sessions.opened import find_reader
from store.traces.sessions.session_places import list_places, list_targets, number_turns

MAX_BODY_BYTES = 4 * 1024 * 1024
MOST_READ = 3  # requests taken apart for one page, each in some 50 ms for 500 KB
MOST_ITEMS, MOST_LISTED, MOST_CONVERSATIONS = 20, 40, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySum:
    """A category of a conversation's prompts: its tokens in the last turn and at most, and its cost over
    all turns."""

    category: Category
    last: float
    most: float
    cents: float | None


def render_session(page: PageRequest, connection: sqlite3.Connection | None) -> Response:
    """Return the page of one conversation of a session. Raises sqlite3.Error and HTTPException."""
    session_id, number = page.arguments["session_id"], page.arguments["number"]
    stored = [] if connection is None else savings_calls.read_calls(connection, session_id)
    sessions = find_reader(connection)
    session = None if sessions is None else sessions.find(session_id)
    if connection is None or sessions is None or session is None or not stored:
        raise HTTPException(404, NO_SESSION)
    calls = [make_call(c.columns, c.items, c.previous_id, c.cache_break) for c in stored]
    chains = sorted(list_chains(calls), key=lambda chain: (-_count_tokens(chain), chain[0].id))
    if number > max(len(chains), 1):
        raise HTTPException(404, f"This session has {len(chains)} conversations.")
    chain = chains[number - 1] if chains else []
    growth = _read(connection, chain)
    turns = [] if growth is None else growth.turns
    numbers = number_turns(list_places(connection, session_id) or [])
    listed, every = sample(turns, MOST_LISTED) if turns else ([], 1)
    return page.render(
        "session_context.html",
        **describe_tabs(
            session, sessions.read_figures(session_id), sessions.read_annotations(session_id)
        ),
        chains=chains[:MOST_CONVERSATIONS],
        chain_count=len(chains),
        chain=chain,
        number=number,
        call_count=len(calls),
        most_calls=savings_calls.MAX_CALLS,
        growth=growth,
        sums=[] if growth is None else _sum(growth),
        drawing=draw(turns, numbers) if turns else None,
        numbers=numbers,
        names=_name_items(connection, session_id, growth.items) if growth else [],
        agent_types=read_deeds(connection, [each[0].id for each in chains]).agent_types,
        listed=listed,
        listed_every=every,
        colour=words.find_colour,
        place=words.describe_place,
        item_address=words.make_address,
        titles=words.TITLES,
        singular=words.ONE,
    )


def _read(connection: sqlite3.Connection, chain: Chain) -> Growth | None:
    def read(call: SavingsCall) -> tuple[Context, int] | None:
        if (call.request_length or 0) > MAX_BODY_BYTES:
            return None
        try:
            whole = read_whole_request(connection, call.id)
        except MissingPieceError:
            return None  # the turn is estimated from another request, which the page says
        if whole is None or not whole.body or whole.gap is not None:
            return None
        body = whole.body
        rules = read_own_rules().find(call.model, datetime.fromisoformat(call.day).date())
        bill = PromptBill(tokens=call.tokens, cents={})
        return read_context(body, bill, call.model, rules), len(body)

    return read_growth(chain, read, most_items=MOST_ITEMS, most_read=MOST_READ)


def _count_tokens(chain: Chain) -> int:
    return sum(call.tokens.total for call in chain)


def _sum(growth: Growth) -> Sequence[CategorySum]:
    cents = growth.sum_cents()
    names = dict.fromkeys(name for turn in growth.turns for name in turn.tokens)
    sums = [
        CategorySum(
            category=name,
            last=growth.turns[-1].tokens.get(name, 0.0),
            most=max(turn.tokens.get(name, 0.0) for turn in growth.turns),
            cents=None if cents is None else cents.get(name, 0.0),
        )
        for name in names
    ]
    return sorted(sums, key=lambda each: (-(each.cents or 0.0), -each.most))


def _name_items(db: sqlite3.Connection, session_id: str, items: Sequence[Item]) -> list[str]:
    """Return for each item the target of its tool use (such as a file), "" if it is not known.

    Raises sqlite3.Error."""
    answers = {item.first.previous_id for item in items if item.first.previous_id is not None}
    uses = read_uses_of(db, sorted(answers))
    root = find_root(list_targets(db, session_id))
    return [name_item(item, uses.get(item.first.previous_id or 0, []), root) for item in items]


def name_item(item: Item, uses: Sequence[StoredUse], root: str) -> str:
    """Return the target (such as a file, relative to ``root``) of the tool use that an item belongs to.

    "" if it belongs to none, or to one of several with different targets. ``uses`` are the tool uses in
    the response just before the item's first call. The item belongs to that response, or to its results,
    if its message is one of the last two."""
    span, count = item.share.span, item.first.message_count or 0
    if span.category not in ("tool_call", "tool_result") or (span.message or 0) < count - 2:
        return ""
    server, tool = split_name(span.name or "")
    alike = [use for use in uses if (use.server or "", use.tool or "") == (server, tool)]
    place = span.block or 0
    if span.category == "tool_result" and place < len(uses) and uses[place] in alike:
        alike = [uses[place]]
    names = {name_object(use, root) for use in alike}
    return names.pop() if len(names) == 1 else ""
