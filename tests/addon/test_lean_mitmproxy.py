"""A process of the proxy loads nothing of what it does without."""

import subprocess
import sys

import pytest

from addon.lean_mitmproxy import ABSENT

LOADED = (
    "print(*(name for name, module in sys.modules.items() if getattr(module, '__file__', None)))"
)


def import_in_a_process(module: str, afterwards: str = LOADED) -> set[str]:
    done = subprocess.run(  # noqa: S603 - our own modules
        [sys.executable, "-c", f"import sys, {module}; {afterwards}"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return set(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("module", ["addon.__main__", "addon.forward.__main__"])
def test_a_proxy_loads_nothing_of_http_3_commands_and_yaml(module):
    loaded = import_in_a_process(module)

    assert "mitmproxy.proxy.layers.http" in loaded
    assert not {name for name in loaded if name.startswith(ABSENT)}
    brought_by_stock_addons = {"mitmproxy.addons.view", "flask", "ldap3", "tornado", "werkzeug"}
    assert not loaded & brought_by_stock_addons


@pytest.mark.slow
def test_who_needs_an_absent_library_finds_it():
    libraries = [name for name in ABSENT if "mitmproxy" not in name]

    found = import_in_a_process(
        "addon.lean_mitmproxy", f"import {', '.join(libraries)}, ruamel.yaml; {LOADED}"
    )

    assert {"aioquic", "pyparsing", "ruamel.yaml"} <= found
