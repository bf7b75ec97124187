"""Build the sdist from what git knows, and the wheel from the sdist, as a release is built.

    python -m tests.packaging.distributions FOLDER [REPOSITORY]

With the address of the repository, links of the README lead to the files of that version there, since
a package index displays it without these files. It uses the setuptools of this environment, so it
needs no network.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributions:
    sdist: Path
    wheel: Path

    def read_sdist(self) -> dict[str, bytes]:
        """Return the content of each file by its path below the top folder."""
        with tarfile.open(self.sdist) as archive:
            members = [member for member in archive.getmembers() if not member.isdir()]
            return {member.name.partition("/")[2]: _read(archive, member) for member in members}

    def read_wheel(self) -> dict[str, bytes]:
        """Return the content of each file by its path."""
        with zipfile.ZipFile(self.wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)")


def build(folder: Path, repository: str | None = None) -> Distributions:
    """Build both into a folder. Raises CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        _copy_tracked_files(tree)
        if repository is not None:
            _make_links_absolute(tree, repository)
        sdist = _call_backend("build_sdist", tree, folder)
        with tarfile.open(sdist) as archive:
            archive.extractall(name, filter="data")
        unpacked = Path(name) / sdist.name.removesuffix(".tar.gz")
        return Distributions(sdist=sdist, wheel=_call_backend("build_wheel", unpacked, folder))


def list_tracked_files() -> list[str]:
    """Return the paths that git knows, of files that are there."""
    done = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - whichever git there is
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [path for path in done.stdout.split("\0") if path and (ROOT / path).exists()]


def _copy_tracked_files(folder: Path) -> None:
    for path in list_tracked_files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path, follow_symlinks=False)


def _make_links_absolute(tree: Path, repository: str) -> None:
    """Let links and pictures of the README lead to the repository, at the tag of this version."""
    version = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"]
    readme = tree / "README.md"
    readme.write_text(
        _LINK.sub(
            lambda link: (
                f"{link[1]}{link[2]}({repository}/{'raw' if link[1] else 'blob'}/v{version}/"
            ),
            readme.read_text(),
        )
    )


def _call_backend(hook: str, source: Path, folder: Path) -> Path:
    """Call a hook of the build backend, and return the file that it made."""
    code = (
        f"from setuptools import build_meta; print(build_meta.{hook}({str(folder.absolute())!r}))"
    )
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", code],
        cwd=source, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return folder / done.stdout.splitlines()[-1]


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file is not None else b""


if __name__ == "__main__":
    built = build(Path(sys.argv[1]), *sys.argv[2:3])
    print(built.sdist, built.wheel, sep="\n")
