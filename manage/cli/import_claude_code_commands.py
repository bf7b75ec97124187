"""``taximeter import claude-code``: earlier sessions of Claude Code, from its transcripts."""

from dataclasses import replace
from pathlib import Path

import click

from manage.cli.console import BackendError
from manage.cli.import_store import ImportStore
from manage.cli.importing import Progress, Result, Target, Writer, import_options, open_import
from manage.transcripts.choice import Choice
from manage.transcripts.files import find_projects, list_files
from manage.transcripts.reading import Found, Transcripts
from metering.prices import PriceTable
from metering.transcripts import PREFIX, make_entry
from runtime import clock
from runtime.safe_text import terminal_line
from store.control.endpoints import ProxyEndpoint
from store.price_file import load_prices
from store.traces.calls.exported_call import encode_entry
from store.traces.paths import trace_path


@click.command("claude-code")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--text", "with_text", is_flag=True,
    help="Import what was said too: it may have secrets that tools have read.",
)  # fmt: skip
@click.option(
    "--endpoint", "slug", metavar="SLUG", default="default", show_default=True,
    help="The proxy endpoint that the calls are counted for.",
)  # fmt: skip
@import_options
def claude_code(
    folder: Path | None,
    with_text: bool,
    slug: str,
    user: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Import earlier sessions of Claude Code from its transcripts.

    Each message of the transcripts becomes one call, priced as of its day. DIR is by default projects in
    the folder of Claude Code (~/.claude or CLAUDE_CONFIG_DIR), where it keeps 30 days. A message that was
    recorded as a call is not imported.

    Imported calls have the usage source and the billing "imported". They are in costs, sessions and,
    with --text, in the search, and in no budget, latency, limit or cache break: transcripts have no
    times of responses, and who paid is not known. The service may run meanwhile.

    \b
    Examples:
      taximeter import claude-code
      taximeter import claude-code --text --endpoint history
      taximeter import claude-code /backup/claude/projects --json
    """
    with open_import(user, data_dir) as (target, store):
        endpoint = target.get_endpoint(slug)
        place = find_projects() if folder is None else folder
        result = _import(place, target, store, endpoint, with_text=with_text)
    result.print(as_json=as_json)


def _import(
    folder: Path, target: Target, store: ImportStore, endpoint: ProxyEndpoint, *, with_text: bool
) -> Result:
    """Import the transcripts in ``folder``. Raises BackendError, sqlite3.Error, OSError."""
    files = _list_files(folder)
    prices = load_prices(target.settings.prices)
    result = Result()
    writer = Writer(target, store, result, own_prefix=PREFIX)
    size = 2 * sum(path.stat().st_size for path in files)  # they are read twice
    keeps_text = with_text and not endpoint.metadata_only
    with Progress(size) as progress, Choice() as choice:

        def show(count: int) -> None:
            progress.show(count, result.new + result.already_there)

        transcripts = Transcripts(files, choice, result.left_out, show)
        transcripts.scan()
        choice.mark_recorded(trace_path(target.settings.data_dir, target.organization_id), PREFIX)
        try:
            for found in transcripts.read(with_text=keeps_text):
                _add(writer, found, target, endpoint, prices, with_text=keeps_text)
        finally:
            writer.flush()
        result.already_there += transcripts.recorded
    return result


def _list_files(folder: Path) -> list[Path]:
    """Return the transcripts in ``folder``. Raises BackendError if there are none, OSError."""
    try:
        files = list_files(folder)
    except FileNotFoundError:
        files = []
    if not files:
        raise BackendError(
            f"there are no transcripts in {terminal_line(str(folder))}: name the folder with those of"
            " Claude Code, as in ~/.claude/projects"
        )
    return files


def _add(
    writer: Writer,
    found: Found,
    target: Target,
    endpoint: ProxyEndpoint,
    prices: PriceTable,
    *,
    with_text: bool,
) -> None:
    request = found.request
    entry = make_entry(
        found.message,
        prices,
        created_at=clock.format_ms(clock.parse_instant(found.message.timestamp)),
        proxy_endpoint_id=endpoint.id,
        slug=endpoint.slug,
        request=None if request is None else request.body,
        with_text=with_text,
    )
    if request is not None:
        entry = replace(entry, betas=request.betas)
    writer.add(entry.entry_id, encode_entry(target.organization_id, entry), entry.message_id)
