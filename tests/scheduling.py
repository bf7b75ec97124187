"""Workers share the tests by whole files, and those that share a browser or a service as one file.

So there is one browser, with one service and one example organisation, however many workers there are.
There are two workers more than processors, since tests of running services wait for other processes.
"""

from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadFileScheduling

SHARED = "the shared service"
"""The tests of it (tests/live/conftest.py), and those that load the vendor's SDK, for two seconds, as some
of these do."""
GROUPS = {
    "tests/browser/": "the browser",
    "tests/test_": "the sources, each of which is parsed once",
    "tests/hostile/": "the service that is attacked",
    "tests/live/lives/": "the service that is ended again and again",
    "tests/live/transfers/": "the proxy without a recorder",
    "tests/live/organizations/": "the service of several organisations",
    "extensions/cluster/tests/live/": "the nodes of a cluster",
    **dict.fromkeys(
        (
            *("tests/live/clients/", "tests/live/wire/"),
            *("tests/live/test_cli.py", "tests/live/test_run.py"),
            *("tests/live/test_prometheus.py", "tests/live/test_send_again.py"),
            "tests/live/test_recorded.py",
            *("tests/live/test_sign_in.py", "tests/live/test_status_line.py"),
            "tests/live/test_forward_proxy.py",
            *("tests/wire/test_decisions.py", "tests/wire/test_response_costs.py"),
            *("tests/metering/test_sdk_models.py", "extensions/reconcile/tests/test_analytics.py"),
            "extensions/mcp/tests/test_server.py",
            "tests/dashboard/call/test_nothing_lost.py",
            "tests/dashboard/replay/test_snippets.py",
        ),
        SHARED,
    ),
}
"""The files whose paths begin so, and what they have in common."""


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # has no types
    """Whole files, and groups of them."""

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        return next((GROUPS[start] for start in GROUPS if path.startswith(start)), path)


@pytest.hookimpl(optionalhook=True)  # where xdist is left out
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Return two workers more than there would be, unless tests of running services are left out."""
    workers = yield
    return workers if "not live" in config.option.markexpr else workers + 2


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let every second worker collect backwards. In a first run two of them then meet half-way, and each
    reads the bytecode that the other wrote. Side by side, both would rewrite and compile every file."""
    report = yield
    if isinstance(collector, pytest.Directory) and _number(collector.config) % 2:
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give all workers the same order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: str(item.path))


def _number(config: pytest.Config) -> int:
    """Return the number of this worker, from 0."""
    return int(getattr(config, "workerinput", {}).get("workerid", "gw0").removeprefix("gw"))


def pytest_configure(config: pytest.Config) -> None:
    """Let workers say less, but where durations of fixtures, a file of results or -x want all of it."""
    option = config.option
    wants_all = option.durations is not None or option.xmlpath or option.maxfail
    if hasattr(config, "workerinput") and not wants_all:
        config.pluginmanager.register(ShortReports(), "short reports")


class ShortReports:
    """One report of a test that passes, where there would be three, and two messages besides.

    To write and read them took a millisecond of processor time for each test, and most take two or three."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.passed:
                if report.when != "call":
                    continue
                report.keywords = {}
            item.ihook.pytest_runtest_logreport(report=report)
        return True
