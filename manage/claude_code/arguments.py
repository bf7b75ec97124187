"""The arguments of Claude Code, with our variables added in ``--settings``.

``--settings`` overrides the settings files. Claude Code accepts it once, so our variables are merged
into the user's value. Settings may hold a password, and everybody on the machine can read arguments,
so settings from a file are merged into a new file. That file is put beside the user's, since rules in
it are relative to its folder, and is removed when the client has ended."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from manage.claude_code.variables import OPTION
from wire.json_reading import parse_object

PROGRAM = "claude"


def is_claude_code(command: Sequence[str]) -> bool:
    """Return whether a command runs Claude Code: its program is ``claude`` or a path that ends in
    ``/claude``."""
    return Path(command[0]).name == PROGRAM


@contextmanager
def passing_variables(
    command: Sequence[str], variables: Mapping[str, str]
) -> Iterator[Sequence[str] | None]:
    """Yield ``command`` with ``variables`` added to its settings; None if they cannot be merged."""
    index, given = _find_given(command)
    if given is None:
        first, *others = command
        yield [first, OPTION, _write({"env": dict(variables)}), *others]
    elif given.strip().startswith("{"):
        settings = parse_object(given.encode())
        merged = None if settings is None else _merge(settings, variables)
        yield None if merged is None else _replace(command, index, _write(merged))
    else:
        with _merged_file(Path(given), variables) as path:
            yield None if path is None else _replace(command, index, str(path))


def get_given_settings(command: Sequence[str]) -> Mapping[str, Any]:
    """Return the settings that a command gives in ``--settings``, empty if none or if they are unreadable."""
    _, given = _find_given(command)
    if given is None:
        return {}
    if given.strip().startswith("{"):
        return parse_object(given.encode()) or {}
    with suppress(OSError):
        return parse_object(Path(given).read_bytes()) or {}
    return {}


def _find_given(command: Sequence[str]) -> tuple[int, str | None]:
    """Return the index and the value of the last ``--settings``, which is the effective one, or (0, None)."""
    found: tuple[int, str | None] = 0, None
    for index, argument in enumerate(command[1:], 1):
        if argument == "--":
            break
        if argument == OPTION and index + 1 < len(command):
            found = index + 1, command[index + 1]
        elif argument.startswith(f"{OPTION}="):
            found = index, argument.removeprefix(f"{OPTION}=")
    return found


def _replace(command: Sequence[str], index: int, value: str) -> list[str]:
    changed = list(command)
    changed[index] = f"{OPTION}={value}" if changed[index].startswith(f"{OPTION}=") else value
    return changed


def _merge(settings: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any] | None:
    env = settings.get("env", {})
    return {**settings, "env": {**env, **variables}} if isinstance(env, dict) else None


@contextmanager
def _merged_file(path: Path, variables: Mapping[str, str]) -> Iterator[Path | None]:
    """Write the settings of ``path`` with ``variables`` to a private file beside it, removed afterwards.

    Yields None if the settings cannot be read or merged."""
    made = _make_merged_file(path, variables)
    try:
        yield made
    finally:
        if made is not None:
            made.unlink(missing_ok=True)


def _make_merged_file(path: Path, variables: Mapping[str, str]) -> Path | None:
    try:
        settings = parse_object(path.read_bytes())
        merged = None if settings is None else _merge(settings, variables)
        if merged is None:
            return None
        descriptor, name = tempfile.mkstemp(".json", f".{path.stem}-taximeter-", path.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(_write(merged))
    except OSError:
        return None
    return Path(name)


def _write(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, ensure_ascii=False)
