"""The proxy's side of the spool: a file for each exchange, and measures against a full disk.

A failure here never reaches a client; see ``spool_troubles``."""

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from addon import headers
from addon.capture import Capture
from addon.exchange import Exchange
from addon.head_metadata import RequestMetadata, ResponseMetadata
from addon.rejection_counts import RejectionCounts
from addon.spool_troubles import SpoolTroubles
from runtime.reserve_file import NO_ROOM
from store.spool.format import RequestHead
from store.spool.writer import RESERVE_BYTES, SpoolFile, SpoolRun

logger = logging.getLogger(__name__)

MAX_REPORT_BYTES = 32 * 1024 * 1024  # of a response; what follows is forwarded and not recorded


class Spooler:
    """Opens captures in the spool folder of this process, and watches the free space of its disk."""

    def __init__(
        self,
        root: Path,
        disk_reserve: int,
        requests: RequestMetadata,
        responses: ResponseMetadata,
        workers: int = 1,
    ) -> None:
        """Spool below ``root``, as one of ``workers`` that share the reserve file's size.

        ``disk_reserve`` is in bytes; ``requests`` and ``responses`` make the metadata."""
        self.troubles = SpoolTroubles()
        self.rejections = RejectionCounts()
        self._root = root
        self._disk_reserve = disk_reserve
        self._requests = requests
        self._responses = responses
        self._workers = workers
        self._disk_is_low = False
        self._run: SpoolRun | None = None

    def capture(self, exchange: Exchange, found: headers.Index, body: bytes | None) -> None:
        """Begin to capture an exchange that is to be recorded: write its request to the spool.

        ``body`` is None if it was too large to be held, or if only the response matters. Errors are
        counted and logged."""
        if exchange.record is None or (exchange.is_report and self._disk_is_low):
            return
        try:
            exchange.capture = self._open(exchange, found, body)
        except OSError as error:
            self.troubles.calls_not_kept += 1
            self.troubles.report(f"cannot write to the spool: {error.strerror or error}")
        except Exception:
            # Our own mistake must not cost the client its response; the counter makes it visible.
            self.troubles.calls_not_kept += 1
            logger.exception("A call goes through without being kept")

    def _open(self, exchange: Exchange, found: headers.Index, body: bytes | None) -> Capture:
        """Return a capture with the request written to the spool. Raises OSError."""
        endpoint = exchange.endpoint
        if endpoint is None:
            raise ValueError("an exchange without an endpoint cannot be logged")
        make_head = partial(
            self._requests.make_head,
            endpoint,
            exchange.arrived_at,
            found,
            body,
            exchange.target,
            exchange.run_id,
            exchange.record or "messages",
        )
        is_kept = body is not None and not endpoint.metadata_only and not self._disk_is_low
        if self._disk_is_low and body:
            self.troubles.request_bodies_not_kept += 1
        spool_file = self._write_request(make_head, body if is_kept else None)
        if not self._disk_is_low:
            self.troubles.clear()
        most_bytes = MAX_REPORT_BYTES if exchange.is_report else None
        return Capture(spool_file, self._responses, self.troubles, most_bytes)

    def _write_request(
        self, make_head: Callable[..., RequestHead], body: bytes | None
    ) -> SpoolFile:
        """Return a new spool file with the request, without its body if that is None or the disk is full.

        Raises OSError."""
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
        return self._in_run(lambda run: run.create(head, body))

    def _in_run[T](self, work: Callable[[SpoolRun], T]) -> T:
        """Return the result of ``work`` in the folder of this process. Raises OSError.

        If the folder was removed, ``work`` is called again with a new one."""
        try:
            return work(self._get_run())
        except FileNotFoundError:  # somebody removed our folder: lock a new one
            self._give_up_run()
            return work(self._get_run())

    def _get_run(self) -> SpoolRun:
        """Return the folder of this process, created and locked at its first use. Raises OSError."""
        if self._run is None:
            self._run = SpoolRun(self._root, RESERVE_BYTES // self._workers)
        return self._run

    def _give_up_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def check_disk(self) -> None:
        """Check the free space, and fill the reserve file again if there is room.

        While there is little space, request bodies are not stored. This also ends a reported failure
        without waiting for a call, and hands over files that could not be handed over before."""
        try:
            self._in_run(lambda run: run.reserve.fill())
            disk = os.statvfs(self._root)
            run = self._get_run()
            run.hand_over_late()
            if self.troubles.current is not None:
                run.try_writing()
        except OSError as error:
            self.troubles.report(f"cannot use the spool folder: {error.strerror or error}")
            return
        free = disk.f_bavail * disk.f_frsize
        if free < self._disk_reserve or run.reserve.is_tapped:
            self._run_short(free)
        elif self.troubles.current is not None:
            self._disk_is_low = False
            self.troubles.clear()

    def _run_short(self, free: int) -> None:
        self._disk_is_low = True
        self.troubles.report(
            f"only {free // 1_000_000} MB of disk are free, below the reserve of"
            f" {self._disk_reserve // 1_000_000} MB: request bodies are not kept"
        )

    def flush_rejections(self) -> None:
        """Write the counts of refused requests, or keep them if that fails."""
        try:
            self.rejections.flush(lambda rejections: self._get_run().write_rejections(rejections))
        except OSError as error:
            self.troubles.report(f"cannot write to the spool: {error.strerror or error}")

    def close(self) -> None:
        """Write the last counts of refused requests and unlock the folder of this process."""
        self.flush_rejections()
        self._give_up_run()
