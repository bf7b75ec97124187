"""Conversations that are recorded: requests of clients, counted by a prompt cache, through the spool."""

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from recorder.ingest import Ingester
from runtime import clock
from store.price_file import load_prices
from store.spool.format import Ending, ResponseHead, TransportOutcome
from store.spool.writer import SpoolRun
from store.traces.paths import trace_path
from tests.conversations.sessions import START
from tests.conversations.upstream_cache import UpstreamCache
from tests.recorder.ingesters import make_ingester
from tests.store.spool.heads import make_head

PRICES = load_prices()
JUDGED = (
    "select u.entry_id, p.entry_id as previous, l.session, b.cause, b.tokens from usage as u"
    " join usage_log as l on l.id = u.id left join usage as p on p.id = l.previous_id"
    " left join cache_breaks as b on b.usage_id = u.id order by u.created_at, u.id"
)


class Recording:
    """A data directory whose recorder can be started again. Time passes only as calls say."""

    def __init__(self, data_dir: Path, owner: str = "org") -> None:
        self.owner = owner
        self.data_dir = data_dir
        self.upstream = UpstreamCache()
        self.at_s = 0.0
        self.count = 0
        self._run = SpoolRun(data_dir / "spool")
        self._ingester = self._start()

    def _start(self) -> Ingester:
        ingester = make_ingester(self.data_dir)
        ingester.update_databases()
        return ingester

    def restart(self) -> None:
        """End the recorder, and start one that remembers nothing."""
        self._ingester.close()
        self._ingester = self._start()

    def close(self) -> None:
        self._ingester.close()
        self._run.close()

    def send(
        self, body: dict[str, Any], after_s: float = 10.0, *, record: bool = True, **changes: Any
    ) -> str:
        """Record a call that is sent so long after the one before; return its entry id."""
        name = self.spool(body, after_s, **changes)
        if record:
            self.record()
        return name

    def record(self) -> None:
        while self._ingester.run_round().handled:
            pass

    def spool(
        self,
        body: dict[str, Any] | bytes,
        after_s: float = 10.0,
        *,
        at_s: float | None = None,
        owner: str | None = None,
        status_code: int = 200,
        answered_after_s: float = 1.0,
        ended_with: TransportOutcome = "complete",
        answer: dict[str, Any] | None = None,
        stream: bytes | None = None,
        metadata_only: bool = False,
        **head: Any,
    ) -> str:
        """Spool a call, so long after the one before or at that second; return its entry id, which is
        ``call-1`` for the first one. The response is a document, or the bytes of a ``stream``."""
        self.at_s = self.at_s + after_s if at_s is None else at_s
        self.count += 1
        name = f"call-{self.count}"
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        if answer is None and status_code == 200 and isinstance(body, dict):
            answer = self.answer(body)
        fields: dict[str, Any] = {
            "created_at": clock.format_ms(START + timedelta(seconds=self.at_s)),
            "organization_id": owner or self.owner,
            "proxy_endpoint_id": "pe",
            "metadata_only": metadata_only,
            "request_bytes": len(raw),
            "request_body": "omitted" if metadata_only else "whole",
            "credential_hmac": "credential",
            "session_id": "s1",
        }
        file = self._run.create(make_head(name, **(fields | head)), b"" if metadata_only else raw)
        document = json.dumps(answer or {"type": "error", "error": {"type": "overloaded_error"}})
        response = document.encode() if stream is None else stream
        kind = "application/json" if stream is None else "text/event-stream"
        first_ms = answered_after_s * 1000
        file.write_response_head(ResponseHead(status_code=status_code, content_type=kind), first_ms)
        file.write_chunk(response, first_ms)
        file.finish(Ending(outcome=ended_with, response_bytes=len(response)), first_ms + 1)
        return name

    def answer(self, body: dict[str, Any], at_s: float | None = None) -> dict[str, Any]:
        """Return what upstream answers at that second, now if none is given."""
        counts = self.upstream.count(body, self.at_s if at_s is None else at_s)
        split = {
            each: counts.pop(each)
            for each in ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
        }
        return {
            "type": "message",
            "id": f"msg_{self.count}",
            "model": body["model"],
            "stop_reason": "end_turn",
            "usage": {"output_tokens": 50, "cache_creation": split} | counts,
        }

    def read(self, sql: str = JUDGED, owner: str | None = None) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(trace_path(self.data_dir, owner or self.owner))) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql)]

    def judged(self) -> list[tuple[Any, ...]]:
        """Return entry id, predecessor and cause of each call, in order of arrival."""
        return [(row["entry_id"], row["previous"], row["cause"]) for row in self.read()]
