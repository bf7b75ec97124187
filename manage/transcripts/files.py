"""The files of transcripts below a folder, and their lines, which take bounded memory."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from manage.claude_code.settings_files import find_folder

MAX_LINE_BYTES = 64 << 20
SUFFIX = ".jsonl"


class Line(NamedTuple):
    """A line and where it begins in its file. ``text`` is None where it is too long."""

    offset: int
    text: bytes | None


def find_projects(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of transcripts, there or not."""
    return find_folder(environ) / "projects"


def list_files(folder: Path) -> list[Path]:
    """Return the transcripts below a folder, or the file that is named itself. Raises OSError."""
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
    """Return whether a path is a file. A pipe would be waited for."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def iter_lines(file: BinaryIO, max_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Yield the lines of a file that are not empty. Raises OSError."""
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
    """Return the line that begins at an offset. Raises OSError."""
    file.seek(offset)
    return file.readline(MAX_LINE_BYTES + 1)
