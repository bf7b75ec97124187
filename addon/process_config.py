"""The configuration of a worker of the proxy, apart from the settings."""

import os
import secrets
from dataclasses import dataclass, field
from typing import Any, Self

from runtime.settings import CLIENT_MARK_VARIABLE, Settings
from runtime.shared_windows import SharedWindows
from runtime.worker_board import WorkerBoard
from store.control.database import FINGERPRINT_KEY, ControlDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """The web process's port, secrets, and the memory that this worker shares with the others.

    ``client_token`` proves to the web process that a header is the proxy's own; ``fingerprint_key`` is
    for fingerprints of credentials."""

    web_port: int | None
    client_token: str
    fingerprint_key: bytes
    board: WorkerBoard = field(default_factory=WorkerBoard.alone)
    windows: SharedWindows = field(default_factory=SharedWindows.alone)

    @classmethod
    def make(cls, settings: Settings, web_port: int | None = None, **shared: Any) -> Self:
        """Make the configuration, with the fingerprint key in ``control.db``.

        The token is read from the environment, or made if that has none. ``shared`` are the board and
        the windows that several workers share. Raises sqlite3.Error if ``control.db`` cannot be used."""
        with ControlDatabase(settings.control_path) as control:
            fingerprint_key = control.get_secret(FINGERPRINT_KEY)
        token = os.environ.get(CLIENT_MARK_VARIABLE) or secrets.token_urlsafe(16)
        return cls(web_port=web_port, client_token=token, fingerprint_key=fingerprint_key, **shared)
