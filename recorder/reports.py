"""Storing of what responses report of other calls: results of batches, managed sessions and dreams.

A line of results becomes an entry, once for each batch and request. A session or dream is a row
that is replaced. If a response is too large to be kept whole, or was cut off, the part that is
there is stored: the rest comes when the client requests it again, or with ``taximeter import
batch``."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import batched
from pathlib import Path
from typing import Any

from metering.batch_results import make_result_entry
from metering.billing import find_billing
from metering.entry import UsageLogEntry
from metering.metadata_only import drop_response_text
from metering.object_pricing import price_object
from metering.object_reading import make_session, read_objects, set_counts
from metering.prices import PriceTable
from metering.rate_limits import parse_limits
from metering.upstream_objects import UpstreamObject
from recorder.header_fields import parse_product
from recorder.open_databases import OpenDatabases
from recorder.setting_aside import set_aside
from runtime import clock
from store.spool import reader
from store.spool.format import RequestHead, ResponseHead, SpooledExchange, SpoolError
from store.spool.reader import Waiting
from store.traces.calls.upstream_objects import Reading
from wire.batch_results import parse_result
from wire.decode import decode_body
from wire.json_reading import clean_text
from wire.managed_objects import find_session_usage

logger = logging.getLogger(__name__)

BATCH_ENTRIES = 250
_BATCH = re.compile(r"/v1/messages/batches/([^/?]+)/results")
_SESSION = re.compile(r"/v1/sessions/([^/?]+)/events")


class ReportStore:
    """A writer of the reports of all organisations.

    ``on_entries`` is called with stored entries, ``between`` at points where other organisations may
    have waited."""

    def __init__(
        self,
        spool_root: Path,
        databases: OpenDatabases,
        prices: Callable[[], PriceTable],
        on_entries: Callable[[Sequence[UsageLogEntry]], None],
        between: Callable[[], None],
    ) -> None:
        self._root = spool_root
        self._databases = databases
        self._prices = prices
        self._on_entries = on_entries
        self._between = between

    def store(self, organization_id: str, files: Sequence[Waiting]) -> int:
        """Store the reports in files of one organisation; return how many were stored or set aside.

        Raises sqlite3.Error or OSError if the database cannot be written now."""
        for waiting in files:
            try:
                exchange = reader.read_exchange(waiting.file)
                if exchange is not None and exchange.head.organization_id != organization_id:
                    raise SpoolError("its name and its head disagree about the organisation")  # noqa: TRY301
            except FileNotFoundError:
                continue
            except SpoolError as error:
                set_aside(self._root, waiting, error)
                continue
            if exchange is not None and exchange.response is not None:
                self._store(organization_id, exchange, exchange.response)
            reader.remove([waiting])
            self._between()
        return len(files)

    def _store(
        self, organization_id: str, exchange: SpooledExchange, response: ResponseHead
    ) -> None:
        body = decode_body(exchange.response_body, response.content_encoding)
        if exchange.ending.response_lost or not body.is_readable_to_its_end:
            logger.warning("A response that reports usage is too large, or damaged: a part is read")
        kind = exchange.head.record
        if kind == "batch_results":
            for entries in batched(
                self._read_results(exchange, response, body.text), BATCH_ENTRIES
            ):
                if self._databases.open(organization_id).insert(entries):
                    self._on_entries(entries)
                self._between()
        elif kind == "session_events":
            self._store_session_usage(organization_id, exchange.head, body.text)
        elif kind in ("session", "dream"):
            self._write(
                organization_id,
                exchange.head,
                exchange.head.created_at,
                read_objects(kind, body.text),
            )

    def _store_session_usage(self, organization_id: str, head: RequestHead, text: bytes) -> None:
        """Store the latest counts among the events of a session, which have no other data of it."""
        found, path = find_session_usage(text), _SESSION.match(head.path_query or "")
        if found is None or path is None:
            return
        read_at, usage = found
        session_id = clean_text(path[1]) or ""
        known = self._databases.open(organization_id).read_upstream_object(session_id)
        session = set_counts(known or make_session(session_id), usage)
        self._write(organization_id, head, read_at, [session])

    def _write(
        self,
        organization_id: str,
        head: RequestHead,
        read_at: str,
        objects: Sequence[UpstreamObject],
    ) -> None:
        if not objects:
            return
        at, prices = clock.parse_instant(read_at), self._prices()
        reading = Reading(
            read_at=read_at,
            proxy_endpoint_id=head.proxy_endpoint_id,
            slug=head.slug,
            credential_hmac=clean_text(head.credential_hmac),
            upstream=head.upstream,
        )
        self._databases.open(organization_id).write_upstream_objects(
            reading,
            [
                replace(each, cost_cents=price_object(each, prices, at, head.upstream))
                for each in objects
            ],
        )

    def _read_results(
        self, exchange: SpooledExchange, response: ResponseHead, text: bytes
    ) -> Iterator[UsageLogEntry]:
        head = exchange.head
        found = _BATCH.match(head.path_query or "")
        if found is None:
            return
        at = clock.parse_instant(head.created_at)
        limits = parse_limits(response.rate_limits, at.timestamp())
        # What the response that lists the results says of all of them.
        of_all: dict[str, Any] = {
            "credential_hmac": clean_text(head.credential_hmac),
            "client": parse_product(head.user_agent),
            "billing": find_billing(head.credential_kind, limits),
            "upstream_organization_id": clean_text(response.upstream_organization_id),
            "user_profile_id": clean_text(head.user_profile_id),
            "workspace_id": clean_text(response.workspace_id) or clean_text(head.workspace_id),
        }
        for line in text.splitlines():
            result = parse_result(line)
            if result is None or not result.has_run:
                continue
            entry = make_result_entry(
                result,
                found[1],
                self._prices(),
                created_at=head.created_at,
                proxy_endpoint_id=head.proxy_endpoint_id,
                slug=head.slug,
                upstream=head.upstream,
            )
            entry = replace(entry, **of_all)
            yield drop_response_text(entry) if head.metadata_only else entry
