"""Wheel and sdist hold every file that git knows, and nothing else."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from tests import ROOT
from tests.packaging.distributions import Distributions, build, list_tracked_files
from tests.packaging.notes import find_notes

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = "https://git.example.org/team/taximeter"
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
    return build(tmp_path_factory.mktemp("dist"), REPOSITORY)


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
    metadata = Metadata.from_email(contents[f"{folder}/METADATA"])
    assert str(metadata.version) == PROJECT["version"]
    assert metadata.license_expression == "MIT"
    assert f"{folder}/licenses/LICENSE" in contents
    assert metadata.requires_python == ">=3.12"
    assert set(metadata.provides_extra or ()) == set(PROJECT["optional-dependencies"])
    entry_points = configparser.ConfigParser()
    entry_points.read_string(contents[f"{folder}/entry_points.txt"].decode())
    assert dict(entry_points["console_scripts"]) == PROJECT["scripts"]


def test_an_index_gets_valid_metadata_and_a_page_whose_links_lead_to_this_version(built):
    package = built.read_sdist()["PKG-INFO"]
    assert package == built.read_wheel()[f"taximeter-{PROJECT['version']}.dist-info/METADATA"]
    metadata = Metadata.from_email(package)  # raises InvalidMetadata
    assert metadata.description_content_type == "text/markdown"
    page = metadata.description or ""
    at = f"v{PROJECT['version']}"
    assert f"]({REPOSITORY}/blob/{at}/docs/install.md)" in page
    assert f"]({REPOSITORY}/raw/{at}/docs/screenshots/session.webp)" in page
    assert re.findall(r"\]\((?!https?:)[^)]*", page) == []


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    changelog = "# Changelog\n\n## Unreleased\n\n- B.\n\n## 0.1.0 - 2026-01-31\n\n- A.\n"
    assert find_notes("v0.1.0", "0.1.0", changelog) == "- A.\n"
    with pytest.raises(ValueError, match=r"tag is v0.1.1"):
        find_notes("v0.1.1", "0.1.0", changelog)
    with pytest.raises(ValueError, match=r"no section '## 0.2.0"):
        find_notes("v0.2.0", "0.2.0", changelog)
