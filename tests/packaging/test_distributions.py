"""Wheel and sdist hold every file that git knows, and nothing else."""

import configparser
import tomllib
from email.parser import BytesParser
from pathlib import Path

import pytest

from tests import ROOT
from tests.packaging.distributions import Distributions, build, list_tracked_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOT_INSTALLED = {".ci", ".github", "bench", "deploy", "docs", "tests"}

pytestmark = [
    pytest.mark.slow,  # to build them
    pytest.mark.skipif(
        not (ROOT / ".git").exists(),
        reason="only a git checkout says which files there are; run it in a clone",
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Distributions:
    return build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(built):
    rooms = [Path(path) for path in list_tracked_files() if "/" in path]
    installed = [path for path in rooms if path.parts[0] not in NOT_INSTALLED]
    expected = {str(path) for path in installed if "tests" not in path.parts}
    contents = {name for name in built.read_wheel() if ".dist-info/" not in name}
    assert contents == expected


def test_the_sdist_holds_every_file_of_the_repository_and_its_metadata(built):
    generated = {"PKG-INFO", "setup.cfg"}
    contents = {name for name in built.read_sdist() if ".egg-info/" not in name}
    assert contents == {*list_tracked_files(), *generated}


def test_the_metadata_for_datasette_in_the_wheel_are_those_of_the_repository(built):
    shipped = built.read_wheel()["dashboard/tables/datasette-metadata.json"]
    assert shipped == (ROOT / "datasette-metadata.json").read_bytes()
    assert not (ROOT / "datasette-metadata.json").is_symlink()


def test_the_wheel_says_what_it_is(built):
    contents = built.read_wheel()
    [folder] = {name.partition("/")[0] for name in contents if ".dist-info/" in name}
    metadata = BytesParser().parsebytes(contents[f"{folder}/METADATA"])
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == "MIT"
    assert f"{folder}/licenses/LICENSE" in contents
    assert metadata["Requires-Python"] == ">=3.12"
    entry_points = configparser.ConfigParser()
    entry_points.read_string(contents[f"{folder}/entry_points.txt"].decode())
    assert dict(entry_points["console_scripts"]) == PROJECT["scripts"]
