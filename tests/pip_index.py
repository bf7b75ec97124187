"""A package index of a test's own: wheels in a folder, and pip and pytest without what else is here."""

import os
import zipfile

import pytest


@pytest.fixture
def without_pip_settings(monkeypatch):
    """Let pip read neither variables nor files of this machine."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture
def without_plugins(monkeypatch):
    """Let a pytest that a test starts load no plugins, which takes most of the time of a small run."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def pip_index(tmp_path, monkeypatch, without_pip_settings):
    """A folder where pip finds packages, and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def write_wheel(folder, name, version, requires=""):
    """Write the wheel of a package with nothing in it. ``requires`` are lines of its metadata."""
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")  # fmt: skip
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")  # fmt: skip
        wheel.writestr(f"{about}/RECORD", "")
