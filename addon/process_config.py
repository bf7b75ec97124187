"""The configuration that a proxy process gets besides the settings."""

import os
import secrets
from dataclasses import dataclass
from typing import Self

from runtime.settings import CLIENT_MARK_VARIABLE, Settings
from store.control.database import ControlDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """Holds the web process's port, a token for it, and the key for fingerprints of credentials.
    The token proves to the web process that a header is ours."""

    web_port: int | None
    client_token: str
    fingerprint_key: bytes

    @classmethod
    def make(cls, settings: Settings, web_port: int | None = None) -> Self:
        """Read the key from ``control.db``, and take the token from the environment, or make one.

        Raises sqlite3.Error when ``control.db`` cannot be used."""
        with ControlDatabase(settings.control_path) as control:
            fingerprint_key = control.get_secret("credential fingerprint")
        token = os.environ.get(CLIENT_MARK_VARIABLE) or secrets.token_urlsafe(16)
        return cls(web_port=web_port, client_token=token, fingerprint_key=fingerprint_key)
