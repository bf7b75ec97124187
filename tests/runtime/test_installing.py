"""The command for what is missing is one that works where the program was installed."""

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest

from runtime import installing
from tests import ROOT

REQUIREMENTS = [
    "click>=8.4",
    'pydantic>=2.12; python_version >= "3.14"',
    'pyarrow>=21; extra == "parquet"',
    'redis!=8.0.*,>=7.4; extra == "cluster"',
    'opentelemetry-exporter-otlp-proto-http>=1.30; extra == "otel"',
    "opentelemetry-sdk>=1.30; (python_version >= '3.12') and extra == 'otel'",
]
WHEEL = "file:///srv/the%20wheels/taximeter-0.1.0-py3-none-any.whl"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that makes this program one that was installed from an address, by uv or by pip."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/opt/taximeter/bin/python")

    def install(url, *, by_uv=False, libraries=()):
        text = None if url is None else json.dumps({"url": url})
        ours = SimpleNamespace(read_text={"direct_url.json": text}.get, requires=REQUIREMENTS)

        def find(name):
            if name == installing.NAME:
                return ours
            if name not in libraries:
                raise PackageNotFoundError(name)
            return SimpleNamespace()

        monkeypatch.setattr(installing, "distribution", find)
        if by_uv:
            (tmp_path / "uv-receipt.toml").touch()

    return install


def test_a_checkout_installs_an_extra_into_its_environment(installed, tmp_path):
    installed(tmp_path.as_uri())
    assert installing.command_for_extra("parquet") == (
        f"/opt/taximeter/bin/python -m pip install -e '{tmp_path}[parquet]'"
    )


def test_pip_installs_an_extra_from_the_wheel_that_the_program_came_from(installed):
    installed(WHEEL)
    assert installing.command_for_extra("otel") == (
        f"/opt/taximeter/bin/python -m pip install 'taximeter[otel] @ {WHEEL}'"
    )


@pytest.mark.parametrize(
    ("url", "source"), [(WHEEL, f" @ {WHEEL}"), (None, ""), ("https://example.org/a.whl", "")]
)
def test_uv_installs_the_tool_once_more_with_the_extra(installed, url, source):
    installed(url, by_uv=True)
    assert (
        installing.command_for_extra("cluster")
        == f"uv tool install --force 'taximeter[cluster]{source}'"
    )


def test_uv_installs_the_extras_again_that_the_tool_has(installed):
    has = ("click", "pyarrow", "opentelemetry-sdk")  # of otel, only a part
    installed(WHEEL, by_uv=True, libraries=has)
    assert installing.command_for_extra("cluster") == (
        f"uv tool install --force 'taximeter[cluster,parquet] @ {WHEEL}'"
    )
    assert installing.command_for("mitmproxy<=1.2") == (
        f"uv tool install --force --with 'mitmproxy<=1.2' 'taximeter[parquet] @ {WHEEL}'"
    )
    installed(WHEEL, by_uv=True, libraries=(*has, "opentelemetry-exporter-otlp-proto-http"))
    assert "'taximeter[otel,parquet] @ " in installing.command_for_extra("parquet")


def test_a_package_is_installed_beside_the_program(installed):
    installed(WHEEL)
    assert installing.command_for("mitmproxy<=1.2") == (
        "/opt/taximeter/bin/python -m pip install 'mitmproxy<=1.2'"
    )
    installed(WHEEL, by_uv=True)
    assert installing.command_for("mitmproxy<=1.2") == (
        f"uv tool install --force --with 'mitmproxy<=1.2' 'taximeter @ {WHEEL}'"
    )


def test_the_message_about_what_is_missing_names_the_command(installed):
    installed(WHEEL, by_uv=True)
    assert installing.explain_missing("Parquet", "parquet") == (
        "Parquet needs libraries that are not installed. This command installs them:"
        f" {installing.command_for_extra('parquet')}"
    )


def test_the_page_on_installing_has_the_commands_for_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].keys() - {"dev"}
    page = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| `(.+)` \| `(.+)` \|$", page, re.M)
    assert {extra: commands for extra, _, *commands in rows} == {
        extra: [
            f".venv/bin/pip install -e '.[{extra}]'",
            f"uv tool install --force 'taximeter[{extra}]'",
        ]
        for extra in extras
    }


def test_code_that_nobody_installed_has_a_command_too(installed, monkeypatch):
    def find(name):
        raise PackageNotFoundError(name)

    installed(None)
    monkeypatch.setattr(installing, "distribution", find)
    assert installing.command_for_extra("otel").endswith("pip install 'taximeter[otel]'")
