"""A process of the proxy loads nothing of what it does without."""

import json
import subprocess
import sys

import pytest

from addon.lean_mitmproxy import ABSENT

LIBRARIES = [name for name in ABSENT if "mitmproxy" not in name]
PROCESS = f"""
import json, sys

def list_loaded():
    return [name for name, module in sys.modules.items() if getattr(module, "__file__", None)]

import {{}}
loaded = list_loaded()
import {", ".join(LIBRARIES)}, ruamel.yaml
print(json.dumps([loaded, list_loaded()]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["addon.__main__", "addon.forward.__main__"])
def test_a_proxy_loads_nothing_of_http_3_commands_and_yaml_and_who_needs_them_finds_them(module):
    done = subprocess.run(  # noqa: S603 - our own modules
        [sys.executable, "-c", PROCESS.format(module)], check=True, capture_output=True, text=True
    )
    loaded, loaded_afterwards = map(set, json.loads(done.stdout))
    assert "mitmproxy.proxy.layers.http" in loaded
    assert not {name for name in loaded if name.startswith(ABSENT)}
    brought_by_stock_addons = {"mitmproxy.addons.view", "flask", "ldap3", "tornado", "werkzeug"}
    assert not loaded & brought_by_stock_addons
    assert {"aioquic", "pyparsing", "ruamel.yaml"} <= loaded_afterwards
