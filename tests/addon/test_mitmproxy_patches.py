"""The list of patches: each fits, has a reason, and a contract test that is there."""

import ast
import re
import tomllib
from dataclasses import replace

import pytest
from mitmproxy import addonmanager, version
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy.server import ConnectionHandler
from mitmproxy.test import taddons

from addon import mitmproxy_patches
from addon.forward.patches import RESPONSES
from addon.mitmproxy_patches import MitmproxyChangedError
from addon.process_config import ProcessConfig
from addon.proxy import UsageProxy
from runtime.installing import MITMPROXY_NEWEST, MITMPROXY_OLDEST, MITMPROXY_TRIED
from runtime.settings import Settings
from tests import ROOT

PATCHES = (*mitmproxy_patches.NEEDED, *mitmproxy_patches.OF_SERVICE, *RESPONSES)
EVERY = pytest.mark.parametrize("patch", PATCHES, ids=str)


@EVERY
def test_a_patch_is_for_the_function_that_mitmproxy_has(patch):
    assert patch.fits, (
        f"mitmproxy has changed {patch}: read what changed, run {patch.contract_test}, and then"
        " set the digest of its patch, and what is tried in runtime/installing.py"
    )


@EVERY
def test_a_patch_names_its_contract_test_and_its_reason(patch):
    path, _, name = patch.contract_test.partition("::")
    tree = ast.parse((ROOT / "tests" / "addon" / path).read_text())
    functions = [
        each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert name in {function.name for function in functions}
    assert "still" in name
    assert patch.reason.endswith(".")


def test_what_is_asked_for_begins_with_the_oldest_that_will_do_and_what_is_locked_was_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [text for text in project["dependencies"] if text.startswith("mitmproxy")]
    assert asked == [f"mitmproxy>={MITMPROXY_OLDEST},<14"]
    [locked] = re.findall(r"^mitmproxy==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    assert _numbers(MITMPROXY_OLDEST) <= _numbers(locked) <= _numbers(MITMPROXY_NEWEST)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def test_the_addon_does_not_load_when_mitmproxy_has_changed_under_it(tmp_path, monkeypatch):
    settings = Settings.from_env({"TAXIMETER_DATA_DIR": str(tmp_path)})
    config = ProcessConfig(web_port=None, client_token="t", fingerprint_key=b"key")
    changed = (*mitmproxy_patches.CORE[1:], replace(mitmproxy_patches.CORE[0], digest="0" * 16))
    monkeypatch.setattr(mitmproxy_patches, "CORE", changed)
    before = ConnectionHandler.drain_writers
    with taddons.context(Proxyserver()) as tctx:
        loader = addonmanager.Loader(tctx.master)
        with pytest.raises(MitmproxyChangedError, match="drain_writers"):
            UsageProxy(settings, config).load(loader)
    assert ConnectionHandler.drain_writers is before


def test_the_error_names_what_changed_and_the_remedy():
    changed = [replace(mitmproxy_patches.CORE[0], digest="0" * 16)]
    with pytest.raises(MitmproxyChangedError) as raised:
        mitmproxy_patches.check([*mitmproxy_patches.CORE[1:], *changed])
    assert f"mitmproxy {version.VERSION}" in str(raised.value)
    assert "(ConnectionHandler.drain_writers)" in str(raised.value)
    assert f"pip install '{MITMPROXY_TRIED}'" in str(raised.value)


def test_a_mitmproxy_without_a_function_that_is_used_as_it_is_will_not_do(monkeypatch):
    needed = [replace(patch, digest="0" * 16) for patch in mitmproxy_patches.NEEDED]
    monkeypatch.setattr(mitmproxy_patches, "NEEDED", needed)
    for chosen in (None, RESPONSES):
        with pytest.raises(MitmproxyChangedError, match="__init__"):
            mitmproxy_patches.check(chosen)
