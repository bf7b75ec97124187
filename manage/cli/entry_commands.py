"""``taximeter tail`` and ``taximeter export``: recorded calls, one by one."""

import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import date, datetime
from pathlib import Path
from typing import BinaryIO

import click

from manage.api.call_operations import list_calls
from manage.api.object_operations import list_objects
from manage.cli.backend import given
from manage.cli.backend_choice import open_all
from manage.cli.console import (
    check_there_is_data,
    data_dir_option,
    explained,
    json_option,
    print_json,
    read_settings,
    service_options,
    tell_of_other_nodes,
)
from manage.cli.endpoint_slugs import check_slugs
from manage.cli.export import (
    Format,
    check_can_write,
    open_private,
    write_rows,
)
from manage.cli.follow import Followed, Follower
from manage.cli.parameters import Choice, Whole
from manage.cli.periods import Instant, find_instants, period_options
from manage.cli.terminal import Colour, paint
from metering.entry import NO_ERROR
from metering.formats import format_calls, format_objects
from runtime.safe_text import terminal_line
from store.traces.calls.call_line import format_entry
from store.traces.calls.call_list import make_item
from store.traces.calls.reader import EntryFilter, make_entry

POLL_S = 0.2
_FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
}


@click.command()
@click.option(
    "-n", "--lines", default=10, show_default=True, type=Whole(0, example=10),
    help="How many of the newest calls to print first.",
)  # fmt: skip
@click.option("--slug", "slugs", multiple=True, help="Only this proxy endpoint; may be repeated.")
@click.option("--no-follow", is_flag=True, help="Print the newest calls and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@data_dir_option
def tail(
    lines: int, slugs: tuple[str, ...], no_follow: bool, as_json: bool, data_dir: str | None
) -> None:
    """Follow calls as this machine records them, until Ctrl-C.

    Prints one line for each call, with the time of arrival in UTC. A call is printed when
    it has ended, so a long stream comes after short calls that began later. Of several nodes it
    shows the calls that this one keeps. On a terminal, failed calls are red (unless NO_COLOR is set).

    \b
    Examples:
      taximeter tail
      taximeter tail -n 0 --slug default                only new calls
      taximeter tail -n 100 --no-follow
      taximeter tail --json | jq -r '[.slug, .model, .cost_cents] | @tsv'
    """
    with explained(), suppress(KeyboardInterrupt):
        settings = read_settings(data_dir=data_dir)
        check_there_is_data(settings)
        tell_of_other_nodes(settings)
        with open_all(None, str(settings.data_dir)) as backends:
            check_slugs(backends, slugs)
        with Follower(settings.data_dir, EntryFilter(slugs=slugs)) as follower:
            _print_entries(follower.read_last(lines), as_json=as_json)
            while not no_follow:
                time.sleep(POLL_S)
                _print_entries(follower.read_new(), as_json=as_json)


def _print_entries(entries: Iterable[Followed], *, as_json: bool) -> None:
    for entry in entries:
        if as_json:
            print_json(make_item(entry.organization_id, entry.row))
        else:
            call = make_entry(entry.row)
            line = format_entry(call)
            click.echo(line if call.outcome in NO_ERROR else paint(line, Colour.FAILED))


@click.command()
@period_options(Instant())
@click.option("--slug", "slugs", multiple=True, help="Only this proxy endpoint; may be repeated.")
@click.option("--model", help="Only this model; * and ? are wildcards.")
@click.option("--user", help="Only this user, as clients name it in a header.")
@click.option("--project", help="Only this project, as clients name it in a header.")
@click.option("--tag", help="Only calls with this tag: key:value, or one without a key.")
@click.option("--bodies", is_flag=True, help="Include request_body and response_body.")
@click.option(
    "--objects", is_flag=True,
    help="Write managed sessions and dreams in the place of calls, with the columns of upstream_objects.",
)  # fmt: skip
@click.option(
    "--format", "kind", type=Choice(["jsonl", "csv", "parquet", "json"]),
    help="JSON lines (jsonl), CSV, Parquet, or one JSON document."
    "  [default: by the file's name, else jsonl]",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    help="Write to this file, readable by you only, instead of standard output.",
)  # fmt: skip
@click.option(
    "--raw-csv", is_flag=True,
    help="In CSV, leave text as it is that a spreadsheet would run as a formula. Without this,"
    " an apostrophe is put before = + - @ at the beginning of text and behind ; tabs and line breaks.",
)  # fmt: skip
@service_options
@json_option
def export(
    from_day: date | None,
    to_day: date | None,
    since: datetime | None,
    until: datetime | None,
    slugs: tuple[str, ...],
    model: str | None,
    user: str | None,
    project: str | None,
    tag: str | None,
    bodies: bool,
    objects: bool,
    kind: Format | None,
    output: Path | None,
    raw_csv: bool,
    base_url: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Write recorded calls as JSON lines, CSV, Parquet or JSON.

    The oldest call is first. Each has the columns of usage_log and its organisation. On this machine the
    calls of all organisations are written, with --base-url those of the key's organisation. Times are
    UTC: a day or a point in time (2026-01-31, 2026-01-31T18:00, with another offset
    2026-01-31T18:00+02:00) or how long ago (7d, 12h, 30m). Bodies that are not text are written as
    {"$base64": true, "encoded": "…"}. Parquet, which needs pyarrow, has timestamps and exact decimal
    costs. With --json, standard output is one JSON document: the calls, or what was written to --output.

    \b
    Examples:
      taximeter export --since 7d > week.jsonl
      taximeter export --from 2026-01-01 --to 2026-01-31 -o january.csv
      taximeter export --since 2026-01-31T18:00 --until 2026-01-31T19:00 -o 18.csv
      taximeter export --since 2026-01-01 --until 2026-02-01 -o month.parquet
      taximeter export --slug default --model 'claude-opus-*' --bodies
      taximeter export --project shop --tag env:prod -o shop.csv
      taximeter export --objects -o sessions-and-dreams.csv
      taximeter export --since 1d --json | jq '[.items[].cost_cents] | add'
      taximeter export --since 7d --base-url https://meter.example.org
    """
    if output == Path("-"):
        output = None
    if as_json and output is None:
        if kind not in (None, "json"):
            raise click.UsageError(f"--json and --format {kind} exclude each other")
        kind = "json"
    if kind is None:
        kind = _find_format(output)
    of_calls = given(model=model, user=user, project=project, tag=tag)
    if objects and (bodies or of_calls):
        names = ", ".join(f"--{name}" for name in ("bodies", *of_calls))
        raise click.UsageError(f"--objects has no calls, which {names} are about")
    first, end = find_instants(from_day, to_day, since, until)
    only = given(since=first, until=end, slugs=",".join(slugs) or None, **of_calls)
    if kind == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: name a file with -o")
    with explained():
        check_can_write(kind)
        with open_all(base_url, data_dir) as backends, _open_output(output) as stream:
            check_slugs(backends, slugs)
            if not objects:
                only = {**only, "bodies": "yes" if bodies else "no"}
            operation = list_objects if objects else list_calls
            count = write_rows(stream, operation, backends, kind, raw_csv=raw_csv, **only)
    if output is None:
        return
    if as_json:
        print_json({"objects" if objects else "entries": count, "file": str(output)})
    else:
        written = format_objects(count) if objects else format_calls(count)
        click.echo(f"Wrote {written} to {terminal_line(str(output))}.")


def _find_format(output: Path | None) -> Format:
    """Return the export format for a file's extension. Raises click.UsageError if it is unknown."""
    suffix = "" if output is None else output.suffix.lower()
    if not suffix:
        return "jsonl"
    if suffix not in _FORMATS:
        *others, last = _FORMATS
        raise click.UsageError(
            f"{suffix!r} is not a known file type: use {', '.join(others)} or {last}, or"
            " choose one with --format"
        )
    return _FORMATS[suffix]


def _open_output(path: Path | None) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdout.buffer) if path is None else open_private(path)
