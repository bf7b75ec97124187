"""``taximeter search``: searches the texts of calls."""

import re
from collections.abc import Iterator
from typing import get_args

import click

from manage.api import search_operations
from manage.api.search_operations import SearchHits
from manage.cli.backend import given
from manage.cli.endpoint_slugs import check_slugs
from manage.cli.parameters import Choice, Whole
from manage.cli.service_command import Service, service_command
from manage.cli.terminal import Colour, paint
from metering.formats import format_count
from runtime.safe_text import terminal_line
from store.pagination import MAX_LIMIT
from store.traces.search.hit_model import SearchHit
from store.traces.search.snippets import split_marks
from store.traces.search.walk import Role

_SPACE = re.compile(r"\s+")


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--role", type=Choice(get_args(Role.__value__)), help="Who said it.")
@click.option("--slug", help="Only this proxy endpoint.")
@click.option("--model", help="Only this model; * and ? are wildcards.")
@click.option("--session", help="Only the session with this id.")
@click.option(
    "-n", "--limit", default=20, show_default=True, type=Whole(1, MAX_LIMIT, example=20),
    help="How many texts at most.",
)  # fmt: skip
@service_command
def search(
    service: Service,
    words: tuple[str, ...],
    role: str | None,
    slug: str | None,
    model: str | None,
    session: str | None,
    limit: int,
) -> None:
    """Search what was said in calls, newest first.

    Texts of users, assistants, tools and system prompts are searched. All words must occur in one text. Words
    in double quotes follow each other; the last word may be a beginning (conf*). Each text is shown once,
    with the first call that has it and the address of its page.

    \b
    Examples:
      taximeter search night tariff
      taximeter search '"night tariff fails"' --role user
      taximeter search 'conf*' --json | jq '.items[].entry_id'
      taximeter search tariff --base-url https://meter.example.org
    """
    check_slugs([service], () if slug is None else (slug,))
    found = service.call(
        search_operations.search_calls,
        **given(
            q=" ".join(words),
            role=role,
            endpoint=slug,
            model=model,
            session=session,
            limit=limit,
        ),
    )
    service.print(found, "\n".join(_describe(found, service.find_pages_url())))


def _describe(found: SearchHits, pages_url: str) -> Iterator[str]:
    """Yield the lines that describe search results."""
    for hit in found.items:
        yield from _describe_hit(hit, pages_url)
    if not found.items and found.has_more:
        yield "Nothing was found in the time of a search: use fewer or rarer words."
    elif not found.items:
        yield "Nothing that was said has all of these words."
    elif found.has_more:
        yield f"There may be more; -n shows up to {MAX_LIMIT}."


def _describe_hit(hit: SearchHit, pages_url: str) -> Iterator[str]:
    others = ""
    if hit.other_calls:
        more = "more than " if hit.other_calls_capped else ""
        others = f", also in {more}{format_count(hit.other_calls)} later"
    title = f"  {terminal_line(hit.session_title)}" if hit.session_title else ""
    yield (
        f"call {hit.id}  {hit.created_at[:19].replace('T', ' ')}  {hit.role.replace('_', ' ')}"
        f"  {terminal_line(hit.slug)}{title}{others}"
    )
    yield f"  {_format_snippet(hit)}"
    yield f"  {pages_url}/calls/{hit.id}"


def _format_snippet(hit: SearchHit) -> str:
    """Return a snippet as one line, with the words that were found in a colour."""
    parts = (
        (_SPACE.sub(" ", part), is_marked)
        for part, is_marked in split_marks(hit.snippet, hit.marks)
    )
    return "".join(
        paint(part, Colour.FOUND) if is_marked else terminal_line(part) for part, is_marked in parts
    ).strip()
