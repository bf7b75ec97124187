"""``service.json``: the announcement of a running service, for commands on the same machine.

It is readable by its owner only, and still has no secrets: settings of the web process alone (mail
server, sign-in providers) are left out, and so are user and password in addresses of other servers."""

import platform
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from os import getpid
from pathlib import Path
from typing import Self

import orjson

from runtime.files import replace_private
from runtime.locks import find_holder
from runtime.settings import Settings, list_settings, without_secrets

# Not a setting of ours, but what the proxy trusts depends on it.
TRUST_VARIABLE = "SSL_CERT_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A running service: address, process, versions and settings.

    ``variables`` are its environment variables. ``base_url`` has the actual port, also if the settings
    leave the choice of a port to the kernel."""

    base_url: str
    pid: int = 0
    version: str = ""
    python: str = ""
    sqlite: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, settings: Settings, environ: Mapping[str, str]) -> Self:
        """Return the announcement of a service in this process, with these settings and variables."""
        return cls(
            base_url=settings.base_url,
            pid=getpid(),
            version=version("taximeter"),
            python=platform.python_version(),
            sqlite=sqlite3.sqlite_version,
            variables=relevant_variables(environ),
        )

    @classmethod
    def read(cls, data_dir: Path) -> Self | None:
        """Return the last announcement written; None if there is none or it cannot be read."""
        with suppress(OSError, ValueError, TypeError):
            return cls(**orjson.loads(_path(data_dir).read_bytes()))
        return None

    def write(self, data_dir: Path) -> None:
        """Write the announcement into the data directory. Raises OSError."""
        replace_private(_path(data_dir), orjson.dumps(asdict(self)))

    def settings(self, data_dir: Path) -> Settings:
        """Return the settings of the service, except those of the web process alone.

        Their data directory is ``data_dir``. Raises SettingsError if the service's version is too
        different."""
        here = {"TAXIMETER_BASE_URL": self.base_url, "TAXIMETER_DATA_DIR": str(data_dir)}
        return Settings.from_env({**self.variables, **here})


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that affect the service, without secrets."""
    known = {setting.variable for setting in list_settings()}
    return {
        name: text
        for name, text in without_secrets(environ).items()
        if name == TRUST_VARIABLE or (name in known and text.strip())
    }


def is_running(data_dir: Path) -> bool:
    """Return whether a service runs on this data directory."""
    with suppress(OSError):
        return find_holder(data_dir / "up.lock") is not None
    return False


def find_running(data_dir: Path) -> Announcement | None:
    """Return the announcement of the service that runs on a data directory, or None.

    It is also None if the service has not written it yet. Raises OSError."""
    holder = find_holder(data_dir / "up.lock")
    if holder is None:
        return None
    announcement = Announcement.read(data_dir)
    return announcement if announcement is not None and announcement.pid == holder.pid else None


def _path(data_dir: Path) -> Path:
    return data_dir / "service.json"
