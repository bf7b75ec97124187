from types import SimpleNamespace

import pytest

from tests.scheduling import FileScheduling


def test_a_worker_gets_whole_files_and_one_gets_all_tests_of_the_browser():
    scheduling = FileScheduling.__new__(FileScheduling)  # without workers
    scopes = {
        name: scheduling._split_scope(f"tests/{name}.py::test_this[that::one]")
        for name in (
            "browser/test_markup",
            "browser/test_members",
            "live/test_cli",
            "live/test_run",
        )
    }
    assert scopes["browser/test_markup"] == scopes["browser/test_members"]
    assert len(set(scopes.values())) == 3


@pytest.mark.parametrize(("expression", "more"), [("", 1), ("not live and not browser", 0)])
def test_there_is_a_worker_more_where_tests_wait_for_services(pytestconfig, expression, more):
    manager = pytestconfig.pluginmanager
    count = manager.getplugin("xdist").pytest_xdist_auto_num_workers
    config = SimpleNamespace(option=SimpleNamespace(markexpr=expression, numprocesses="auto"))
    workers = manager.hook.pytest_xdist_auto_num_workers(config=config)
    assert workers == count(config) + more
