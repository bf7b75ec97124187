"""The calls of the two weeks before: spooled as by the proxy, and stored by the recorder's code.

``organization.toml`` says when and how often. The rest is drawn from a seed, so that two demos are alike.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import batched, cycle
from random import Random
from typing import Any

from addon.head_metadata import RequestMetadata, ResponseMetadata
from extensions.demo.events import count_output
from extensions.demo.script import Call, Player, Reply, Step, read_table
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

SEED = 3
BATCH = 50
DAY = timedelta(days=1)
LAST = timedelta(minutes=20)  # before now nothing of the history is sent any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that was sent at an instant, and the seconds to the first and the last byte of its reply."""

    at: datetime
    call: Call
    attempt: int
    reply: Reply
    first_s: float
    took_s: float


class Past:
    """The requests of the days before an instant."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._plan: Mapping[str, Any] = read_table("organization")["history"]
        self._player = Player(SEED)
        self._random = Random(SEED)  # noqa: S311 - nothing here is a secret

    def list_sent(self) -> list[Sent]:
        """Return all requests, the oldest first."""
        sent: list[Sent] = []
        for begins_at, name in sorted(self._list_conversations()):
            self._lay_out(self._player.play(name), begins_at, sent)
        return sorted(
            (each for each in sent if each.at < self._now - LAST), key=lambda each: each.at
        )

    def _list_conversations(self) -> Iterator[tuple[datetime, str]]:
        """Yield each conversation with the instant at which it begins."""
        midnight = self._now.replace(hour=0, minute=0, second=0, microsecond=0)
        for habit in self._plan["habits"]:
            names = cycle(habit["conversations"])
            begin, end = (timedelta(hours=hour) for hour in habit["hours"])
            for days in range(self._plan["days"], -1, -1):
                day = midnight - days * DAY
                usual = habit["begin"][day.weekday()]
                for _ in range(round(usual * self._random.uniform(0.8, 1.3))):
                    yield day + self._random.uniform(begin / DAY, end / DAY) * DAY, next(names)

    def _lay_out(self, steps: Iterable[Step], at: datetime, sent: list[Sent]) -> datetime:
        """Add the requests of a conversation that begins at an instant. Return the instant of its end."""
        for step in steps:
            if not isinstance(step, Call):
                at = max(self._lay_out(each, at, sent) for each in step)
                continue
            at += timedelta(seconds=step.pause_s)
            for attempt, reply in enumerate((*self._draw_failures(step), *step.replies)):
                first_s, took_s = self._draw_times(step, reply)
                sent.append(
                    Sent(
                        at=at,
                        call=step,
                        attempt=attempt,
                        reply=reply,
                        first_s=first_s,
                        took_s=took_s,
                    )
                )
                at += timedelta(seconds=took_s + self._random.uniform(2, 45))
        return at

    def _draw_failures(self, call: Call) -> Iterator[Reply]:
        for name, share in self._plan["fails"].items():
            if self._random.random() < share and call.replies[0].content:
                yield self._player.fail(call.replies[0], name)

    def _draw_times(self, call: Call, reply: Reply) -> tuple[float, float]:
        if reply.error_type is not None:
            failed_s = self._random.uniform(0.2, 0.5)
            return failed_s, failed_s
        speed = self._plan["tokens_per_second"].get(call.body["model"], 60) * self._random.gauss(
            1, 0.15
        )
        first_s = self._random.lognormvariate(-0.2, 0.4)
        return first_s, first_s + count_output(reply) / max(speed, 10) * (reply.cut_after or 1)


class Proxy:
    """The files that a proxy spools of requests."""

    def __init__(
        self, settings: Settings, endpoints: Mapping[str, ProxyEndpoint], key: bytes
    ) -> None:
        """Spool for these endpoints, which are by slug. ``key`` is that of fingerprints of credentials."""
        self._run = SpoolRun(settings.spool_path, reserve_bytes=0)
        self._requests = RequestMetadata(key, settings.vendor)
        self._responses = ResponseMetadata(settings.vendor)
        self._endpoints = endpoints
        self._api = MessagesApi()
        self._random = Random(SEED)  # noqa: S311 - nothing here is a secret

    def spool(self, sent: Sent) -> None:
        """Write the file of a request and its response. Raises OSError."""
        call, headers = sent.call, sent.call.headers_of(sent.attempt)
        endpoint = self._endpoints[call.program.endpoint]
        target = f"/v1/messages{call.program.query}"
        is_kept = not endpoint.metadata_only
        head = self._requests.make_head(
            endpoint, sent.at, _encode(headers), call.content, target, None, is_kept=is_kept
        )
        file = self._run.create(head, call.content if is_kept else b"")
        response = self._api.respond(headers, call.body, sent.reply, sent.at)
        first_ms, last_ms = sent.first_s * 1000, sent.took_s * 1000
        fields = _encode(response.headers)
        file.write_response_head(self._responses.make_head(response.status, fields), first_ms)
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
        """End the run: what it spooled is the recorder's."""
        self._run.close()


def record(settings: Settings, now: datetime) -> None:
    """Store the calls of the days before an instant, while no service runs on the data directory.

    Raises ControlError, sqlite3.Error, OSError."""
    with ControlDatabase(settings.control_path) as control:
        key = control.get_secret(FINGERPRINT_KEY)
        management = Management.make(control, settings)
        endpoints = management.list_endpoints(management.local_caller()).items
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


def _encode(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode(), value.encode()) for name, value in headers.items())
