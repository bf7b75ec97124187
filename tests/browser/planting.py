"""Calls of any time in the past, put into the database of an organisation by the recorder's own code.

Each goes through a spool file and the ``Ingester``, which also does what it does in the background: what was
said can be searched, savings are found, and so are credentials. The prompt cache is the one by which the
tests of cache breaks count (``tests.conversations.upstream_cache``).
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from extensions.credentials_in_calls.search import SecretSearch
from metering.billing import CredentialKind
from metering.client_hints import PARENT_AGENT_ID, PROMPT_ID, REQUEST_CLASS
from recorder.disk import DiskRoom
from recorder.ingest import Ingester
from recorder.savings import SavingsFinder
from recorder.text_indexing import TextIndexing
from runtime import clock
from store.price_file import load_prices
from store.spool.format import Ending, RequestHead, ResponseHead, TransportOutcome
from store.spool.writer import SpoolRun
from store.traces.paths import trace_path
from tests.conversations.upstream_cache import UpstreamCache
from tests.live.messages import Answer, Block, Counts
from tests.upstream import error_json

PAUSE_S = 100.0  # more than anything in the recorder waits for


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error of the upstream."""

    status: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call and how it went. ``cut_after``: the response ends after so many events.

    ``session`` to ``prompt`` are what the headers of Claude Code say."""

    name: str
    at: datetime
    slug: str
    body: Mapping[str, Any]
    response: Sequence[Block] | Failure
    took_s: float = 2.0
    outcome: TransportOutcome = "complete"
    cut_after: int | None = None
    client: str = "Anthropic/Python 2.11.0"
    credential: str = "a key of the desk"
    credential_kind: CredentialKind = "api_key"
    limits: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    request_class: str | None = None
    prompt: str | None = None


class Planter:
    """Records calls of one organisation, which has none yet and which no other recorder serves."""

    def __init__(
        self, data_dir: Path, folder: Path, organization_id: str, endpoint_ids: Mapping[str, str]
    ) -> None:
        """Record in this data directory, by a spool in ``folder``. ``endpoint_ids`` are by slug."""
        self.ids: dict[str, int] = {}
        """The row ids of calls by their names."""
        self._path = trace_path(data_dir, organization_id)
        self._organization_id = organization_id
        self._endpoint_ids = endpoint_ids
        self._cache = UpstreamCache()
        self._now_s = 0.0
        self._run = SpoolRun(folder)
        prices = load_prices()

        def now_s() -> float:
            return self._now_s

        self._ingester = Ingester(
            data_dir,
            folder,
            lambda: prices,
            DiskRoom(folder, 0),
            clock_s=now_s,
            on_entries=lambda _: None,
            make_work=lambda databases: [
                SecretSearch(data_dir, data_dir / "control.db", databases, now_s),
                TextIndexing(databases, now_s),
                SavingsFinder(databases, lambda: prices, now_s),
            ],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ingester.close()
        self._run.close()

    def plant(self, calls: Sequence[Call]) -> None:
        """Record calls, which are stored in the order that they are given in."""
        for number, call in enumerate(calls, 1 + len(self.ids)):
            self._spool(call)
            self.ids[call.name] = number
        while self._ingester.run_round().handled:
            pass
        self._look_back()

    def _look_back(self) -> None:
        """Let the recorder do all that it does after a pause."""
        with closing(sqlite3.connect(self._path, timeout=30)) as db, db:
            db.execute("update savings_due set due_at = 0")
        self._now_s += PAUSE_S
        while self._ingester.work_in_background():
            self._now_s += PAUSE_S

    def _spool(self, call: Call) -> None:
        body = json.dumps(call.body).encode()
        hints = {
            PARENT_AGENT_ID: call.parent,
            REQUEST_CLASS: call.request_class,
            PROMPT_ID: call.prompt,
        }
        file = self._run.create(
            RequestHead(
                entry_id=clock.new_id(),
                created_at=clock.format_ms(call.at),
                organization_id=self._organization_id,
                proxy_endpoint_id=self._endpoint_ids[call.slug],
                slug=call.slug,
                metadata_only=False,
                request_bytes=len(body),
                request_body="whole",
                credential_hmac=hashlib.sha256(call.credential.encode()).hexdigest()[:32],
                credential_kind=call.credential_kind,
                user_agent=call.client,
                session_id=call.session,
                agent_id=call.agent,
                path_query="/v1/messages",
                api_version="2023-06-01",
                client_hints={name: value for name, value in hints.items() if value},
            ),
            body,
        )
        first_ms, last_ms = 180 + call.took_s * 90, call.took_s * 1000
        status, kind, chunks = self._respond(call)
        head = ResponseHead(
            status_code=status,
            content_type=kind,
            upstream_request_id=f"req_011CPlanted{len(self.ids):08}",
            rate_limits=dict(call.limits) or None,
        )
        file.write_response_head(head, first_ms)
        for chunk in chunks:
            file.write_chunk(chunk, last_ms)
        ending = Ending(
            outcome=call.outcome,
            duration_ms=last_ms,
            proxy_overhead_ms=2.5,
            response_bytes=sum(map(len, chunks)),
        )
        file.finish(ending, last_ms)

    def _respond(self, call: Call) -> tuple[int, str, list[bytes]]:
        """Return status, content type and parts of the response."""
        if isinstance(call.response, Failure):
            failure = call.response
            error = error_json(failure.kind, f"because of {failure.kind}")
            return failure.status, "application/json", [error]
        counted = self._cache.count(dict(call.body), call.at.timestamp())
        answer = Answer(
            content=call.response,
            model=call.body["model"],
            counts=Counts(
                input=counted["input_tokens"],
                read=counted["cache_read_input_tokens"],
                write_5m=counted["ephemeral_5m_input_tokens"],
                write_1h=counted["ephemeral_1h_input_tokens"],
                output=len(json.dumps(call.response)) // 4,
            ),
        )
        return 200, "text/event-stream", answer.events()[: call.cut_after]
