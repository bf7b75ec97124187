from pathlib import Path

import pytest

from runtime import data_location
from runtime.data_location import find_default_data_dir
from runtime.settings import Settings


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder in which a program is started."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def platform_dir(tmp_path, monkeypatch):
    """The platform's directory for an installed program."""
    monkeypatch.setattr(data_location, "_PACKAGES", tmp_path / "site-packages")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return tmp_path / "share" / "taximeter"


def test_a_checkout_keeps_its_data_in_the_folder_data(here):
    assert find_default_data_dir() == Path("data")


def test_an_installed_program_uses_the_directory_of_the_platform(here, platform_dir):
    assert find_default_data_dir() == platform_dir
    assert Settings.from_env({}).data_dir == platform_dir


def test_an_installed_program_uses_a_data_directory_that_is_here(here, platform_dir):
    (here / "data").mkdir()
    assert find_default_data_dir() == Path("data"), "an empty one"
    (here / "data" / "control.db").touch()
    assert find_default_data_dir() == Path("data"), "one of ours"


@pytest.mark.parametrize("name", ["data", "data/measurements.csv"])
def test_an_installed_program_leaves_data_of_something_else_alone(here, platform_dir, name):
    (here / name).parent.mkdir(exist_ok=True)
    (here / name).touch()
    assert find_default_data_dir() == platform_dir


def test_a_setting_goes_before_both(here, platform_dir):
    (here / "data").mkdir()
    assert Settings.from_env({"TAXIMETER_DATA_DIR": "/srv/meter"}).data_dir == Path("/srv/meter")
