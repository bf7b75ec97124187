"""A cluster begins where its library and its settings are there."""

import subprocess
import sys

import pytest

from extensions.cluster import plugin
from runtime import extensions
from runtime.errors import StartError
from runtime.installing import command_for_extra
from runtime.settings import Settings


def test_a_cluster_without_its_library_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(plugin, "find_spec", lambda _name: None)
    begin = extensions.call().before_start
    begin(settings=Settings.from_env({}), environ={}, warn=print)
    node = Settings.from_env({"TAXIMETER_CLUSTER": "redis://127.0.0.1"})
    with pytest.raises(StartError) as raised:
        begin(settings=node, environ={}, warn=print)
    assert str(raised.value).endswith(command_for_extra("cluster"))


EVERY_HOOK = """
import sys
from inspect import signature
from pathlib import Path
from extensions.cluster import plugin
from runtime import extensions
from runtime.settings import Settings
settings = Settings.from_env({"TAXIMETER_DATA_DIR": sys.argv[1]})
given = {
    "settings": settings, "node": settings.node, "data_dir": settings.data_dir, "environ": {},
    "values": settings.of_extensions, "warn": print,
}
hooks = {each: getattr(plugin, each) for each in vars(extensions.call()) if hasattr(plugin, each)}
for hook in hooks.values():
    hook(**{name: given.get(name) for name in signature(hook).parameters})
assert len(hooks) > 10, hooks
print(*sorted(each for each in sys.modules if each.startswith("extensions.cluster.")))
"""


def test_one_machine_loads_nothing_of_a_cluster(tmp_path):
    command = [sys.executable, "-c", EVERY_HOOK, str(tmp_path)]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603
    assert loaded == ["extensions.cluster.plugin", "extensions.cluster.settings"]
