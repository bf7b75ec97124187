"""The settings files of Claude Code, whose ``env`` overrides the environment of its process.

A file that is missing, cannot be read or is not JSON counts as empty; Claude Code itself reports such
files."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wire.json_reading import parse_object

type Scope = Literal["managed", "local", "project", "user"]

MANAGED_FOLDER = Path(
    "/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code"
)
MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A settings file with the variables that it sets. ``managed``: no other place overrides them."""

    path: Path
    scope: Scope
    variables: Mapping[str, str]


def find_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which Claude Code keeps its settings and transcripts."""
    named = environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path(environ.get("HOME", "~")).expanduser() / ".claude"


def read_settings_files(
    environ: Mapping[str, str], folder: Path, managed_folder: Path = MANAGED_FOLDER
) -> Sequence[SettingsFile]:
    """Return the settings files of Claude Code in ``folder`` that set variables, highest precedence first.

    Managed settings that a device policy keeps outside files are not found."""
    scopes: dict[Path, Scope] = {}
    for scope, path in _list_files(environ, folder, managed_folder):
        scopes.setdefault(
            path, scope
        )  # in the home folder, the user's are those of the project too
    return [
        SettingsFile(path=path, scope=scope, variables=variables)
        for path, scope in scopes.items()
        if (variables := read_variables(path))
    ]


def read_variables(path: Path) -> Mapping[str, str]:
    """Return the variables that a settings file sets, empty if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return get_variables(parse_object(file.read(MAX_BYTES)) or {})
    except OSError:
        return {}


def get_variables(settings: Mapping[str, object]) -> Mapping[str, str]:
    """Return the variables in ``env`` of parsed settings."""
    found = settings.get("env")
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _list_files(
    environ: Mapping[str, str], folder: Path, managed_folder: Path
) -> Iterator[tuple[Scope, Path]]:
    config = find_folder(environ)
    yield "managed", config / "remote-settings.json"  # as the vendor's service has sent them
    # Of several files the last one counts.
    dropped_in = sorted((managed_folder / "managed-settings.d").glob("*.json"), reverse=True)
    for path in (*dropped_in, managed_folder / "managed-settings.json"):
        yield "managed", path
    for root in dict.fromkeys((folder, _find_root(folder))):
        yield "local", root / ".claude" / "settings.local.json"
    yield "project", folder / ".claude" / "settings.json"
    yield "user", config / "settings.json"


def _find_root(folder: Path) -> Path:
    """Return the root of the repository that contains ``folder``, or ``folder`` if there is none."""
    for each in (folder, *folder.parents):
        if (each / ".git").exists():
            return each
    return folder
