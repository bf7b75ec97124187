import sys

import pytest

from tests.lazily import import_lazily


def test_a_module_is_loaded_when_it_is_used_and_not_when_its_tests_are_collected(
    monkeypatch, tmp_path, capsys
):
    (tmp_path / "slow_to_load.py").write_text("print('loaded')\nvalue = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = import_lazily("slow_to_load")
    for name in ("__test__", "__wrapped__", "_mock_name"):  # what pytest looks for
        assert not hasattr(module, name)
    assert not isinstance(module, type)
    assert capsys.readouterr().out == ""
    assert "slow_to_load" not in sys.modules
    assert module.value == 1
    assert capsys.readouterr().out == "loaded\n"
    del sys.modules["slow_to_load"]


def test_a_module_that_is_not_there_is_an_error_at_once():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_lazily("no_such_module")
