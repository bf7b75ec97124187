"""Keeping exchanges: what the proxy writes to the spool, and what it does when it cannot.

A failure here never reaches a client. It is logged once when it starts and once when it is over,
counted, and shown on ``/healthz``.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from addon import headers
from addon.redaction import redact_query
from metering.request_facts import NO_FACTS, keep_plain_names, parse_facts
from runtime import clock
from runtime.reserve_file import NO_ROOM, ReserveFile
from store.control.database import ProxyEndpoint
from store.spool.format import Ending, Rejection, RequestHead, ResponseHead
from store.spool.writer import SpoolFile, SpoolRun

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SpoolTroubles:
    """Counts since this proxy started, and what is wrong right now (None when nothing is)."""

    calls_not_kept: int = 0
    responses_not_kept: int = 0
    request_bodies_not_kept: int = 0
    current: str | None = None


class Spooler:
    """Opens captures in this run's spool folder and watches the disk under it."""

    def __init__(self, root: Path, disk_reserve: int, fingerprint_key: bytes, vendor: str) -> None:
        """``disk_reserve`` is in bytes; ``fingerprint_key`` is that of ``headers.fingerprint``;
        ``vendor`` begins the names of the upstream's own headers."""
        self.troubles = SpoolTroubles()
        self._root = root
        self._disk_reserve = disk_reserve
        self._fingerprint_key = fingerprint_key
        self._version_header = f"{vendor}-version".encode()
        self._beta_header = f"{vendor}-beta".encode()
        self._disk_is_low = False
        self._run: SpoolRun | None = None
        self._rejected: Counter[tuple[str, str, str, str, str]] = Counter()

    def open(
        self,
        endpoint: ProxyEndpoint,
        arrived_at: datetime,
        fields: headers.Fields,
        body: bytes | None,
        target: str,
        run_id: str | None = None,
    ) -> "Capture | None":
        """Write a request to the spool; None, loudly, when that fails. ``body`` is None where it
        was too large to be held. ``target`` is the path below the slug with its query, without the
        run that it names."""
        make_head = partial(self._make_head, endpoint, arrived_at, fields, body, target, run_id)
        is_kept = body is not None and not endpoint.metadata_only and not self._disk_is_low
        if self._disk_is_low and body:
            self.troubles.request_bodies_not_kept += 1
        try:
            spool_file = self._write_request(make_head, body if is_kept else None)
        except OSError as error:
            self.troubles.calls_not_kept += 1
            self.report(f"cannot write to the spool: {error.strerror or error}")
            return None
        if self.troubles.current is not None and not self._disk_is_low:
            self.recover()
        return Capture(spool_file, self)

    def _make_head(
        self,
        endpoint: ProxyEndpoint,
        arrived_at: datetime,
        fields: headers.Fields,
        body: bytes | None,
        target: str,
        run_id: str | None,
        *,
        is_kept: bool,
    ) -> RequestHead:
        """What is kept of a request beside its body: named fields, never the headers as they are.

        Of a body that is not kept, names and numbers are read here."""
        named = headers.by_name(fields)
        is_read = body is not None and not is_kept and b"content-encoding" not in named
        facts = parse_facts(body) if is_read and body is not None else NO_FACTS
        if endpoint.metadata_only:
            facts = keep_plain_names(facts)
        return RequestHead(
            entry_id=clock.new_id(),
            created_at=clock.format_ms(arrived_at),
            organization_id=endpoint.organization_id,
            proxy_endpoint_id=endpoint.id,
            slug=endpoint.slug,
            metadata_only=endpoint.metadata_only,
            request_bytes=None if body is None else len(body),
            request_body="whole" if is_kept else "omitted",
            credential_hmac=headers.fingerprint(
                fields, self._fingerprint_key, endpoint.organization_id
            ),
            content_encoding=named.get(b"content-encoding"),
            user_agent=named.get(b"user-agent"),
            session_id=named.get(b"x-claude-code-session-id") or facts.session_id,
            agent_id=named.get(b"x-claude-code-agent-id"),
            retry_count=named.get(b"x-stainless-retry-count"),
            path_query=redact_query(target),
            api_version=named.get(self._version_header),
            betas=self._join_betas(fields) if self._beta_header in named else None,
            request_model=facts.model,
            max_tokens=facts.max_tokens,
            message_count=facts.message_count,
            tool_count=facts.tool_count,
            run_id=run_id,
        )

    def _join_betas(self, fields: headers.Fields) -> str | None:
        return b",".join(headers.get_all(fields, self._beta_header)).decode("latin-1") or None

    def _write_request(
        self, make_head: Callable[..., RequestHead], body: bytes | None
    ) -> SpoolFile:
        """Raises OSError."""
        if body is not None:
            try:
                return self._create(make_head(is_kept=True), body)
            except OSError as error:
                if error.errno not in NO_ROOM or not body:
                    raise
            # The reserve is for what the usage is in.
            self._run_short(0)
            self.troubles.request_bodies_not_kept += 1
        return self._create(make_head(is_kept=False), b"")

    def _create(self, head: RequestHead, body: bytes) -> SpoolFile:
        try:
            return self._get_run().create(head, body)
        except FileNotFoundError:  # somebody removed our folder: lock a new one
            self._give_up_run()
            return self._get_run().create(head, body)

    def _get_run(self) -> SpoolRun:
        """This run's folder, made and locked when it is first needed. Raises OSError."""
        if self._run is None:
            self._run = SpoolRun(self._root)
        return self._run

    def _give_up_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def count_rejection(
        self, organization_id: str, proxy_endpoint_id: str, slug: str, bucket: str
    ) -> None:
        hour = clock.format_ms(clock.now())[:13]
        self._rejected[organization_id, proxy_endpoint_id, slug, bucket, hour] += 1

    def flush_rejections(self) -> None:
        if not self._rejected:
            return
        rejections = [
            Rejection(
                organization_id=organization_id,
                proxy_endpoint_id=proxy_endpoint_id,
                slug=slug,
                bucket=bucket,
                hour=hour,
                count=count,
            )
            for (
                organization_id,
                proxy_endpoint_id,
                slug,
                bucket,
                hour,
            ), count in self._rejected.items()
        ]
        try:
            self._get_run().write_rejections(rejections)
        except OSError as error:
            self.report(f"cannot write to the spool: {error.strerror or error}")
        else:
            self._rejected.clear()

    def check_disk(self) -> None:
        """Ask how much is free, and take the reserve again where there is room for it. While there is
        little, request bodies are not kept. A trouble that passed is over without waiting for a call."""
        try:
            reserve = self._fill_reserve()
            disk = os.statvfs(self._root)
            if self.troubles.current is not None:
                self._get_run().try_writing()
        except OSError as error:
            self.report(f"cannot use the spool folder: {error.strerror or error}")
            return
        free = disk.f_bavail * disk.f_frsize
        if free < self._disk_reserve or reserve.is_tapped:
            self._run_short(free)
        elif self.troubles.current is not None:
            self._disk_is_low = False
            self.recover()

    def _fill_reserve(self) -> ReserveFile:
        """Raises OSError."""
        try:
            reserve = self._get_run().reserve
            reserve.fill()
        except FileNotFoundError:  # as in _create
            self._give_up_run()
            reserve = self._get_run().reserve
            reserve.fill()
        return reserve

    def _run_short(self, free: int) -> None:
        self._disk_is_low = True
        self.report(
            f"only {free // 1_000_000} MB of disk are free, below the reserve of"
            f" {self._disk_reserve // 1_000_000} MB: request bodies are not kept"
        )

    def report(self, trouble: str) -> None:
        if self.troubles.current is None:
            logger.error("USAGE LOGGING IS IMPAIRED: %s. Calls still go through.", trouble)
        self.troubles.current = trouble

    def recover(self) -> None:
        logger.warning("Usage logging works again after: %s", self.troubles.current)
        self.troubles.current = None

    def close(self) -> None:
        self.flush_rejections()
        self._give_up_run()


class Capture:
    """One exchange on its way into the spool. No method raises, whatever happens: an exception within
    a stream would reach the client."""

    def __init__(self, spool_file: SpoolFile, spooler: Spooler) -> None:
        self._file = spool_file
        self._spooler = spooler
        self._response_lost = False

    def response_head(self, status_code: int, fields: headers.Fields, elapsed_ms: float) -> None:
        named = headers.by_name(fields)
        head = ResponseHead(
            status_code=status_code,
            content_type=named.get(b"content-type"),
            content_encoding=named.get(b"content-encoding"),
            upstream_request_id=named.get(b"request-id"),
        )
        try:
            self._file.write_response_head(head, elapsed_ms)
        except Exception as error:
            self._lose_response(error)

    def chunk(self, data: bytes, elapsed_ms: float) -> None:
        if self._response_lost:  # a body with a hole in it would be a lie
            return
        try:
            self._file.write_chunk(data, elapsed_ms)
        except Exception as error:
            self._lose_response(error)

    def finish(self, ending: Ending, elapsed_ms: float) -> None:
        if self._response_lost:
            ending = replace(ending, response_lost=True)
        try:
            self._file.finish(ending, elapsed_ms)
        except Exception as error:
            self._lose_response(error)

    def discard(self) -> None:
        try:
            self._file.discard()
        except Exception as error:
            self._spooler.report(f"cannot remove from the spool: {error}")

    def _lose_response(self, error: Exception) -> None:
        if not self._response_lost:
            self._spooler.troubles.responses_not_kept += 1
        self._response_lost = True
        reason = getattr(error, "strerror", None) or error
        self._spooler.report(f"cannot write to the spool: {reason}")
