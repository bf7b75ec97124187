"""Reading and writing the user's settings file of Claude Code. Settings that are not ours are kept."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from manage.claude_code.settings_files import find_folder
from runtime.files import replace_private
from runtime.safe_text import terminal_line


def find_settings(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the user's settings file of Claude Code, whether it exists or not."""
    return find_folder(environ) / "settings.json"


def read_settings_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file, empty if there is no file. Raises ClickException, OSError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        settings = orjson.loads(content) if content.strip() else {}
    except orjson.JSONDecodeError as error:
        raise click.ClickException(
            f"{terminal_line(str(path))} is not valid JSON, and is left as it is: {error}"
        ) from error
    if not isinstance(settings, dict):
        raise click.ClickException(
            f"{terminal_line(str(path))} is not a JSON object, and is left as it is"
        )
    return settings


def write_settings_file(path: Path, settings: Mapping[str, Any]) -> None:
    """Replace a settings file atomically. A symbolic link stays, and its target is replaced. Raises
    OSError."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    replace_private(target, orjson.dumps(settings, option=orjson.OPT_INDENT_2) + b"\n")
    if mode is not None:
        target.chmod(mode)
