"""Writing one exchange to the spool, part by part while it happens."""

from dataclasses import replace

from addon import headers
from addon.head_metadata import ResponseMetadata
from addon.spool_troubles import SpoolTroubles
from store.spool.format import Ending
from store.spool.writer import NotHandedOverError, SpoolFile


class Capture:
    """Appends to the spool file of one exchange.

    No method raises, since an exception during a stream would reach the client."""

    def __init__(
        self,
        spool_file: SpoolFile,
        metadata: ResponseMetadata,
        troubles: SpoolTroubles,
        most_bytes: int | None = None,
    ) -> None:
        """Write to ``spool_file``. The part of a response body beyond ``most_bytes`` is left out."""
        self._left = most_bytes
        self._file = spool_file
        self._metadata = metadata
        self._troubles = troubles
        self._response_lost = False

    def write_response_head(
        self, status_code: int, found: headers.Index, elapsed_ms: float
    ) -> None:
        """Write the metadata of a response's head: selected fields, never all headers."""
        try:
            head = self._metadata.make_head(status_code, found)
            self._file.write_response_head(head, elapsed_ms)
        except Exception as error:
            self._lose_response(error)

    def write_chunk(self, data: bytes, elapsed_ms: float) -> None:
        """Write a chunk of the response body as received."""
        if self._response_lost:  # a body with a hole in it would be a lie
            return
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._response_lost = True
                return
        try:
            self._file.write_chunk(data, elapsed_ms)
        except Exception as error:
            self._lose_response(error)

    def finish(self, ending: Ending, elapsed_ms: float) -> None:
        """Write how the exchange ended, and release its file to the recorder."""
        if self._response_lost:
            ending = replace(ending, response_lost=True)
        try:
            self._file.finish(ending, elapsed_ms)
        except NotHandedOverError as error:
            self._troubles.report(f"cannot write to the spool: {error.strerror}")
        except Exception as error:
            self._lose_response(error)

    def discard(self) -> None:
        """Remove the file, since nothing was sent to the upstream."""
        try:
            self._file.discard()
        except Exception as error:
            self._troubles.report(f"cannot remove from the spool: {error}")

    def _lose_response(self, error: Exception) -> None:
        if not self._response_lost:
            self._troubles.responses_not_kept += 1
        self._response_lost = True
        reason = getattr(error, "strerror", None) or error
        self._troubles.report(f"cannot write to the spool: {reason}")
