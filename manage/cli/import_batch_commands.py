"""``taximeter import batch``: the results of a message batch, as calls at half price."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path

import click

from manage.batch_download import (
    DownloadError,
    fetch_batch,
    iter_results,
    open_client,
    split_lines,
)
from manage.cli.console import BackendError
from manage.cli.import_store import ImportStore
from manage.cli.importing import (
    Progress,
    Result,
    Target,
    Writer,
    find_size,
    import_options,
    open_import,
)
from manage.cli.periods import Day
from manage.cli.remote import is_exposed, is_loopback
from metering.batch_results import make_result_entry
from metering.billing import BILL_TO_CUSTOMER, Billing, find_billing
from metering.entry import UsageLogEntry
from metering.metadata_only import drop_response_text
from metering.prices import PriceTable
from runtime import clock
from runtime.safe_text import terminal_line
from runtime.settings import Settings
from store.control.endpoints import ProxyEndpoint
from store.price_file import load_prices
from store.traces.calls.exported_call import encode_entry
from wire.batch_results import parse_result

CHUNK_BYTES = 64 << 10
MAX_LINE_BYTES = 64 << 20  # upstream's messages have less than half of it
UNREADABLE, TOO_LONG = "unreadable", "too_long"
_BATCH_ID = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_PROFILE_ID = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_ID_IN_NAME = re.compile(r"msgbatch_[A-Za-z0-9]+", re.ASCII)


def _check_profile(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> str | None:
    """Return the id of a user profile unchanged. Raises BadParameter for any other text."""
    if value is not None and not _PROFILE_ID.fullmatch(value):
        raise click.BadParameter("this is not the id of a user profile, as in uprof_011CZkZ")
    return value


@click.command()
@click.argument("source", metavar="FILE|BATCH_ID")
@click.option(
    "--batch-id", metavar="ID", help="The id of the batch, if the name of FILE does not have it."
)
@click.option(
    "--endpoint", "slug", metavar="SLUG", default="default", show_default=True,
    help="The proxy endpoint that the calls are counted for.",
)  # fmt: skip
@click.option(
    "--day", type=Day(), metavar="DAY",
    help="The day (UTC) of the batch.  [default: that of its creation, or of the last change of FILE]",
)  # fmt: skip
@click.option(
    "--customer", metavar="PROFILE", callback=_check_profile,
    help="The user profile whose customer pays for the batch, as its requests say (billing_policy).",
)  # fmt: skip
@import_options
def batch(
    source: str,
    batch_id: str | None,
    slug: str,
    day: date | None,
    customer: str | None,
    user: str | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Import the results of a message batch at half price.

    FILE has the results as JSON lines, as upstream gives them; - is standard input. The results of a
    BATCH_ID are fetched from the upstream of the endpoint, with the key in ANTHROPIC_API_KEY or
    ANTHROPIC_AUTH_TOKEN, which is kept nowhere. A result becomes one call, by the batch and its
    custom_id, however often it is imported. Requests that were canceled or have expired are left out,
    since they never ran. Results do not say who pays: they count as your spend unless --customer names
    the customer who pays. The service may run meanwhile. If there are several nodes, run this on each
    node that keeps calls.

    \b
    Examples:
      taximeter import batch msgbatch_013Zva2CMHLNnXjNJJKqJ2EF
      taximeter import batch msgbatch_013Zva2CMHLNnXjNJJKqJ2EF_results.jsonl
      taximeter import batch results.jsonl --batch-id msgbatch_013Zva2CMHLNnXjNJJKqJ2EF
    """
    with open_import(user, data_dir) as (target, store), ExitStack() as stack:
        endpoint = target.get_endpoint(slug)
        try:
            results = _open(stack, target.settings, endpoint, source, batch_id)
            if day is not None:
                results = replace(results, created_at=datetime.combine(day, time(), UTC))
            results = replace(results, customer=customer)
            prices = load_prices(target.settings.prices)
            result = _import(results, target, store, endpoint, prices)
        except DownloadError as error:
            raise BackendError(terminal_line(str(error))) from None
    result.print(as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Results:
    """The results of a batch.

    ``created_at`` is the time that their calls get, and ``size`` the number of bytes, 0 if unknown.
    ``customer`` is the user profile of the customer who pays for them, None if nobody else does."""

    batch_id: str
    created_at: datetime
    chunks: Iterator[bytes]
    size: int = 0
    customer: str | None = None


def _open(
    stack: ExitStack,
    settings: Settings,
    endpoint: ProxyEndpoint,
    source: str,
    batch_id: str | None,
) -> _Results:
    """Open a file of results, or the download of a batch. Raises UsageError, DownloadError, OSError."""
    path = Path(source)
    if source != "-" and not path.exists() and _BATCH_ID.fullmatch(source):
        if batch_id is not None:
            raise click.UsageError(f"there is no file {source}, and --batch-id is for files")
        return _download(stack, settings, endpoint, source)
    named = _ID_IN_NAME.search(path.name)
    batch_id = batch_id or (named and named[0])
    if batch_id is None:
        raise click.UsageError(
            "the name of the file has no id of a batch (msgbatch_…): name it with --batch-id"
        )
    if not _BATCH_ID.fullmatch(batch_id):
        raise click.UsageError("--batch-id is not the id of a batch, as in msgbatch_013Zva2CMHLNn")
    if source == "-":
        stream, created_at = sys.stdin.buffer, clock.now()
    else:
        stream = stack.enter_context(path.open("rb"))
        created_at = datetime.fromtimestamp(os.fstat(stream.fileno()).st_mtime, UTC)
    chunks = iter(partial(stream.read, CHUNK_BYTES), b"")
    return _Results(batch_id=batch_id, created_at=created_at, chunks=chunks, size=find_size(stream))


def _download(
    stack: ExitStack, settings: Settings, endpoint: ProxyEndpoint, batch_id: str
) -> _Results:
    upstream = settings.find_upstream(endpoint.upstream)
    if upstream is None:
        raise DownloadError(
            f"{endpoint.slug} has the upstream {endpoint.upstream!r}, which TAXIMETER_UPSTREAMS does not name"
        )
    url = str(upstream)
    if is_exposed(url):
        raise DownloadError(f"{url} has no TLS, so the key could be read on its way")
    client = stack.enter_context(
        open_client(settings.vendor, os.environ, is_local=is_loopback(url))
    )
    found = fetch_batch(client, url, batch_id)
    return _Results(
        batch_id=batch_id, created_at=found.created_at, chunks=iter_results(client, found)
    )


def _import(
    results: _Results,
    target: Target,
    store: ImportStore,
    endpoint: ProxyEndpoint,
    prices: PriceTable,
) -> Result:
    """Import the results of a batch. If they break off, those read so far are stored.

    Raises BackendError, DownloadError, sqlite3.Error, OSError."""
    result = Result()
    writer = Writer(target, store, result, own_prefix=f"{results.batch_id}:")
    with Progress(results.size) as progress:
        try:
            for line in split_lines(results.chunks, MAX_LINE_BYTES):
                entry = _read(line, results, endpoint, prices, result)
                if entry is not None:
                    encoded = encode_entry(target.organization_id, entry)
                    writer.add(entry.entry_id, encoded, entry.message_id)
                progress.show(len(line or b"") + 1, result.new + result.already_there)
        finally:
            writer.flush()
    unread = result.left_out[UNREADABLE]
    if unread and unread == result.left_out.total() + result.new + result.already_there:
        raise BackendError("none of these lines is the result of a batch")
    return result


def _read(
    line: bytes | None,
    results: _Results,
    endpoint: ProxyEndpoint,
    prices: PriceTable,
    result: Result,
) -> UsageLogEntry | None:
    """Return the entry for a line of results, or None for a line that is left out.

    The reason for leaving it out is counted in ``result``."""
    parsed = None if line is None else parse_result(line)
    if parsed is not None and parsed.has_run:
        entry = make_result_entry(
            parsed,
            results.batch_id,
            prices,
            created_at=clock.format_ms(results.created_at),
            proxy_endpoint_id=endpoint.id,
            slug=endpoint.slug,
            upstream=endpoint.upstream,
        )
        if results.customer is not None:
            entry = replace(entry, user_profile_id=results.customer, billing=_find_payer(entry))
        return drop_response_text(entry) if endpoint.metadata_only else entry
    if parsed is not None:
        result.left_out[parsed.type] += 1
    elif line is None or line.strip():
        result.left_out[TOO_LONG if line is None else UNREADABLE] += 1
    return None


def _find_payer(entry: UsageLogEntry) -> Billing | None:
    """Return the billing of a result whose request bills a customer."""
    return find_billing(None, None, bill_to=BILL_TO_CUSTOMER, status_code=entry.status_code)
