"""``/sessions/<id>/context``: the growth of the prompts of a session, and the cost of carrying it."""

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
from conversations.xray import Category
from dashboard import rendering
from dashboard.context import words
from dashboard.context.bar import find_colour
from dashboard.context.growth_chart import draw, sample
from dashboard.context.item_names import name_items
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import PRIVATE
from dashboard.sessions.opened import NO_SESSION
from dashboard.sessions.view import describe_tabs
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.threads import read_whole_request
from store.traces.savings import savings_calls
from store.traces.sessions.deeds import read_deeds
from store.traces.sessions.opened import find_reader
from store.traces.sessions.session_places import list_places, number_turns

MAX_BODY_BYTES = 4 * 1024 * 1024
MOST_READ = 3  # requests taken apart for one page, each in some 50 ms for 500 KB
MOST_ITEMS, MOST_LISTED, MOST_CONVERSATIONS = 20, 40, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CategorySum:
    """A category of a conversation: its tokens in the last turn and at most, and the cost of all turns."""

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
    return rendering.render(
        "session_context.html",
        visitor=page.caller,
        headers=PRIVATE,
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
        names=name_items(connection, session_id, growth.items) if growth else [],
        agent_types=read_deeds(connection, [each[0].id for each in chains]).agent_types,
        listed=listed,
        listed_every=every,
        colour=find_colour,
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
