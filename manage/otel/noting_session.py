"""The HTTP session of OpenTelemetry's exporter, which itself does not tell why an export failed."""

from collections.abc import Container
from typing import Any

from requests import Response, Session


class NotingSession(Session):
    """Notes whether something was sent since ``forget``, and the status of the last response."""

    def __init__(self) -> None:
        super().__init__()
        self.forget()

    def forget(self) -> None:
        self._was_used = False
        self._status: int | None = None

    def is_final(self, may_pass: Container[int]) -> bool:
        """Return whether what failed would fail again: nothing could be sent, as a batch that cannot be
        encoded, or the response has a status other than these."""
        if self._status is None:
            return not self._was_used
        return self._status not in may_pass

    def request(self, *args: Any, **kwargs: Any) -> Response:
        self._was_used, self._status = True, None
        response = super().request(*args, **kwargs)
        self._status = response.status_code
        return response
