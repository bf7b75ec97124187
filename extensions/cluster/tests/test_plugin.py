"""A cluster begins where its library and its settings are there."""

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
