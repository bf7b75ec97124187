"""``taximeter sessions list|show``, here or on a remote service."""

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import quote

import click

from manage.api import session_operations
from manage.cli.backend import given
from manage.cli.command_group import CommandGroup
from manage.cli.endpoint_slugs import check_slugs
from manage.cli.parameters import Whole
from manage.cli.periods import Instant
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import (
    format_amount,
    format_cost,
    format_count,
    format_table,
    format_time,
)
from metering.entry import NO_ERROR
from metering.formats import format_calls
from runtime import clock
from runtime.safe_text import terminal_line
from store.pagination import MAX_LIMIT
from store.traces.sessions.session_model import OpenedSession, SessionTurn

TITLE_CHARS = 60
MAIN_AGENT = "main"


class _SessionsGroup(CommandGroup):
    """A group whose default command is ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the parsed arguments, with ``list`` inserted if they name no command."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_SessionsGroup, modules={})
def sessions() -> None:
    """Show sessions, the conversations and runs of agents.

    `taximeter sessions` is `taximeter sessions list`.

    \b
    Examples:
      taximeter sessions
      taximeter sessions show 5f0e6b7c-3a01-4b52-9d57-1f6b7a0c9d11
    """


@sessions.command("list")
@click.option(
    "-n", "--limit", default=20, show_default=True, type=Whole(1, MAX_LIMIT, example=20),
    help="How many sessions at most.",
)  # fmt: skip
@click.option("--cursor", metavar="CURSOR", help="nextCursor of the page before, as --json has it.")
@click.option(
    "--by-cost", is_flag=True,
    help="The most expensive first; without --since those that ended in the last 7 days.",
)  # fmt: skip
@click.option(
    "--since", type=Instant(), metavar="TIME", help="Only sessions that ended then (UTC) or later."
)
@click.option("--slug", help="Only sessions of this proxy endpoint.")
@service_command
def list_sessions(
    service: Service,
    limit: int,
    cursor: str | None,
    by_cost: bool,
    since: datetime | None,
    slug: str | None,
) -> None:
    """List sessions, the one that ended last first. Times are UTC.

    \b
    Examples:
      taximeter sessions list -n 50
      taximeter sessions list --by-cost --since 30d
      taximeter sessions list --json | jq -r '.items[] | [.cost_cents, .title] | @tsv'
      taximeter sessions list --base-url https://meter.example.org
    """
    check_slugs([service], () if slug is None else (slug,))
    page = service.call(
        session_operations.list_sessions,
        **given(
            limit=limit,
            cursor=cursor,
            order="cost" if by_cost else None,
            since=None if since is None else clock.format_ms(since),
            endpoint=slug,
        ),
    )
    numbers = ("CALLS", "ERRORS", "CACHE BREAKS", "COST")
    table = format_table(
        ("ENDED (UTC)", *numbers, "SESSION", "TITLE"),
        [
            (
                format_time(each.ended_at),
                format_count(each.calls),
                format_count(each.errors),
                format_count(each.cache_breaks),
                format_cost(each.cost_cents),
                each.session_id,
                _shorten(each.title),
            )
            for each in page.items
        ],
        right=numbers,
        empty="There are no sessions yet." if since is None else "There are no such sessions.",
    )
    more = f"\n\nThere are more: -n shows up to {MAX_LIMIT}, --cursor the next ones."
    service.print(page, table + more * page.has_more)


@sessions.command("show")
@click.argument("session_id", metavar="ID")
@service_command
def show_session(service: Service, session_id: str) -> None:
    """Show the turns of a session, oldest first.

    Its agents and its cache breaks are shown too. A turn is shown with the tools that it used, or the first
    words of its response. Of more than 2,000 turns the last ones are shown.

    \b
    Examples:
      taximeter sessions show 5f0e6b7c-3a01-4b52-9d57-1f6b7a0c9d11
      taximeter sessions show ID --json | jq '.cache_breaks'
    """
    session = service.call(session_operations.get_session, session_id)
    service.print(session, "\n".join(_describe(session, service.find_pages_url())))


def _describe(session: OpenedSession, pages_url: str) -> Iterator[str]:
    """Yield lines on a session: title, times, cost, turns, agents, cache breaks, address of its page."""
    yield terminal_line(session.title or session.session_id)
    yield (
        f"{format_time(session.started_at)} to {format_time(session.ended_at)} UTC:"
        f" {format_calls(session.calls)}, {format_amount(session.cost_cents)}\n"
    )
    numbers = ("CALL", "COST")
    yield format_table(
        ("ARRIVED (UTC)", *numbers, "AGENT", "MODEL", "DID"),
        [
            (
                format_time(each.created_at),
                each.id,
                format_cost(each.cost_cents),
                _shorten(each.agent_id) or MAIN_AGENT,
                each.model,
                _describe_turn(each),
            )
            for each in session.turns
        ],
        right=numbers,
    )
    if len(session.agents) > 1:
        yield "\nAgents:"
        for agent in session.agents:
            yield (
                f"  {terminal_line(agent.agent_id or MAIN_AGENT)}: {format_calls(agent.calls)},"
                f" {format_amount(agent.cost_cents)}"
            )
    yield from _describe_breaks(session)
    yield f"\n{pages_url}/sessions/{quote(session.session_id, safe='')}"


def _describe_breaks(session: OpenedSession) -> Iterator[str]:
    if session.cache_breaks:
        yield "\nBroke the cache:"
    ids = {each.entry_id: each.id for each in session.turns}
    for found in session.cache_breaks:
        detail = f" ({terminal_line(found.detail)})" if found.detail else ""
        extra = f", {format_amount(found.extra_cost_cents)} extra" if found.extra_cost_cents else ""
        yield (
            f"  call {ids.get(found.entry_id, found.entry_id)}: {terminal_line(found.cause)}{detail},"
            f" {format_count(found.tokens)} tokens{extra}{' (estimated)' if found.estimated else ''}"
        )


def _describe_turn(turn: SessionTurn) -> str:
    """Return a line on a turn: its error, the tools that it used, or its text."""
    if turn.outcome not in NO_ERROR:
        return turn.outcome
    if turn.tools:
        return _shorten(", ".join(" ".join(filter(None, (e.tool, e.target))) for e in turn.tools))
    return _shorten(turn.said_text)


def _shorten(text: str | None) -> str:
    line = "" if text is None else " ".join(text.split())
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…"
