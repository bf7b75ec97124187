"""The calls of the two weeks before: spooled as by the proxy, and stored by the recorder's code."""

import time
from collections.abc import Mapping
from datetime import datetime
from itertools import batched
from random import Random

from addon.head_metadata import RequestMetadata, ResponseMetadata
from addon.headers import Index, fingerprint, index
from extensions.demo.library import read_table
from extensions.demo.schedule import SEED, Past, Sent
from extensions.demo.upstream import MessagesApi, place
from recorder.disk import DiskRoom
from recorder.ingest import Ingester
from runtime.settings import Settings
from store.control.database import FINGERPRINT_KEY, ControlDatabase
from store.control.endpoints import ProxyEndpoint
from store.control.management import Management
from store.price_file import load_prices
from store.spool.format import Ending, TransportOutcome
from store.spool.writer import SpoolRun

BATCH = 50


class Proxy:
    """Writes spool files of past requests, as the proxy does."""

    def __init__(
        self, settings: Settings, endpoints: Mapping[str, ProxyEndpoint], key: bytes
    ) -> None:
        """Spool for ``endpoints``, by slug. ``key`` is the one for fingerprints of credentials."""
        self._run = SpoolRun(settings.spool_path, reserve_bytes=0)
        self._requests = RequestMetadata(key, settings.vendor)
        self._responses = ResponseMetadata(settings.vendor)
        self._endpoints = endpoints
        self._api = MessagesApi()
        self._random = Random(SEED)  # noqa: S311 - nothing here is a secret

    def spool(self, sent: Sent) -> None:
        """Write the spool file of a request and its response. Raises OSError."""
        call, headers = sent.call, sent.call.headers_of(sent.attempt)
        endpoint = self._endpoints[call.program.endpoint]
        is_kept = not endpoint.metadata_only
        head = self._requests.make_head(
            endpoint, sent.at, _encode(headers), call.content, call.target, None, is_kept=is_kept
        )
        file = self._run.create(head, call.content if is_kept else b"")
        response = self._api.respond(headers, call.body, sent.reply, sent.at)
        first_ms, last_ms = sent.first_s * 1000, sent.took_s * 1000
        received = _encode(response.headers)
        file.write_response_head(self._responses.make_head(response.status, received), first_ms)
        chunks = response.chunks[: place(sent.reply.cut_after, response.chunks)]
        for number, chunk in enumerate(chunks, 1):
            file.write_chunk(chunk, first_ms + (last_ms - first_ms) * number / len(chunks))
        is_cut = sent.reply.cut_after is not None
        outcome: TransportOutcome = "upstream_interrupted" if is_cut else "complete"
        ending = Ending(
            outcome=outcome,
            error_type=outcome if is_cut else None,
            duration_ms=last_ms,
            proxy_overhead_ms=self._random.uniform(1.2, 3.5),
            response_bytes=sum(map(len, chunks)),
        )
        file.finish(ending, last_ms)

    def close(self) -> None:
        """End the run, so that the recorder reads the spooled files."""
        self._run.close()


def record(settings: Settings, now: datetime) -> None:
    """Store the calls of the days before ``now``. No service may run on the data directory.

    The credentials of all calls get names. Raises ControlError, sqlite3.Error, OSError."""
    with ControlDatabase(settings.control_path) as control:
        key = control.get_secret(FINGERPRINT_KEY)
        management = Management.make(control, settings)
        caller = management.local_caller()
        endpoints = management.list_endpoints(caller).items
        for credential, name in read_table("organization")["credentials"].items():
            found = fingerprint(credential.encode(), key, caller.organization_id)
            management.names.put(caller, found, name)
    prices = load_prices()
    proxy = Proxy(settings, {each.slug: each for each in endpoints}, key)
    ingester = Ingester(
        settings.data_dir,
        settings.spool_path,
        lambda: prices,
        DiskRoom(settings.data_dir, settings.disk_reserve),
        time.monotonic,
        on_entries=lambda _: None,
    )
    try:
        for some in batched(Past(now).list_sent(), BATCH):  # whose files are used again
            for sent in some:
                proxy.spool(sent)
            while ingester.run_round().handled:
                pass
    finally:
        proxy.close()
        ingester.close()


def _encode(headers: Mapping[str, str]) -> Index:
    return index(tuple((name.encode(), value.encode()) for name, value in headers.items()))
