"""Transcript files below a folder, and their lines, read with bounded memory."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from manage.claude_code.settings_files import find_folder

MAX_LINE_BYTES = 64 << 20
SUFFIX = ".jsonl"


class Line(NamedTuple):
    """A line and its offset in the file in bytes. ``text`` is None if the line is too long."""

    offset: int
    text: bytes | None


def find_projects(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of Claude Code's folder of transcripts, whether it exists or not."""
    return find_folder(environ) / "projects"


def list_files(folder: Path) -> list[Path]:
    """Return the transcripts below a folder; if ``folder`` is a file, that file. Raises OSError."""
    if folder.is_file():
        return [folder]
    folder.stat()
    return sorted(each for each in folder.rglob(f"*{SUFFIX}") if _is_plain(each))


def has_transcripts(folder: Path) -> bool:
    """Return whether there is any transcript below a folder."""
    try:
        return any(_is_plain(each) for each in folder.glob(f"*/*{SUFFIX}"))
    except OSError:
        return False


def _is_plain(path: Path) -> bool:
    """Return whether a path is a regular file: reading a pipe would block."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def iter_lines(file: BinaryIO, max_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Yield the lines of a file that are not blank. Raises OSError."""
    offset = 0
    while text := file.readline(max_bytes + 1):
        start, offset = offset, offset + len(text)
        if len(text) <= max_bytes or text.endswith(b"\n"):
            if stripped := text.strip():
                yield Line(start, stripped)
            continue
        while (rest := file.readline(max_bytes)) and not rest.endswith(b"\n"):
            offset += len(rest)
        offset += len(rest)
        yield Line(start, None)


def read_line(file: BinaryIO, offset: int) -> bytes:
    """Return the line at an offset in bytes with its end, b"" at the end of the file.

    It is cut after ``MAX_LINE_BYTES`` + 1 bytes. Raises OSError."""
    file.seek(offset)
    return file.readline(MAX_LINE_BYTES + 1)
