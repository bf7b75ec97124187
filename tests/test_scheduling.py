import re
from unittest.mock import Mock

import pytest

from tests import ROOT
from tests.scheduling import (
    GROUPS,
    SHARED,
    FileScheduling,
    pytest_make_collect_report as collect,
    pytest_xdist_auto_num_workers as count_workers,
)
from tests.sources import find_tests


def test_a_worker_gets_whole_files_and_one_gets_all_tests_of_a_browser_or_a_service():
    scheduling = FileScheduling.__new__(FileScheduling)  # without workers
    scopes = {
        name: scheduling._split_scope(f"tests/{name}.py::test_this[that::one]")
        for name in (
            "browser/test_markup",
            "browser/test_members",
            "hostile/test_framing",
            "hostile/test_uploads",
            "live/lives/test_deaths",
            "live/lives/test_stops",
            "live/test_cli",
            "live/test_run",
            "live/wire/test_paths",
            "live/test_demo",
            "test_architecture",
            "test_docstrings",
            "store/test_pagination",
            "store/test_erasures",
        )
    }
    for first, *others in (
        ("browser/test_markup", "browser/test_members"),
        ("hostile/test_framing", "hostile/test_uploads"),
        ("live/lives/test_deaths", "live/lives/test_stops"),
        ("live/test_cli", "live/test_run", "live/wire/test_paths"),
        ("test_architecture", "test_docstrings"),
    ):
        assert {scopes[each] for each in others} == {scopes[first]}
    assert len(set(scopes.values())) == 8


@pytest.mark.parametrize(
    ("folder", "use"),
    [
        ("tests/live", r"\b(shared_service: Service|live: Endpoint|: EndpointFactory)\b"),
        ("", r"(import|from|import_lazily\(\") ?anthropic\b|sdk_fields import"),
    ],
)
def test_files_that_use_the_shared_service_or_the_sdk_are_for_one_worker(folder, use):
    scheduling = FileScheduling.__new__(FileScheduling)
    using = [
        path.relative_to(ROOT).as_posix()
        for path in find_tests("test_*.py")
        if path.is_relative_to(ROOT / folder)
        if re.search(rf"^[^#\"]*(?:{use})", path.read_text(), re.MULTILINE)
    ]
    assert len(using) >= 4
    groups = {path: scheduling._split_scope(f"{path}::test_this") for path in using}
    assert groups == dict.fromkeys(using, SHARED)


def test_every_group_is_of_files_that_are_there():
    assert [start for start in GROUPS if not [*ROOT.glob(f"{start}*")]] == []


@pytest.mark.parametrize(("expression", "more"), [("", 2), ("not live and not browser", 0)])
def test_there_are_more_workers_where_tests_wait_for_services(expression, more):
    hook = count_workers(Mock(option=Mock(markexpr=expression)))
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.send(4)
    assert done.value.value == 4 + more


@pytest.mark.parametrize(
    ("worker", "expected"),
    [({}, [1, 2, 3]), ({"workerid": "gw0"}, [1, 2, 3]), ({"workerid": "gw1"}, [3, 2, 1])],
    ids=["alone", "first", "second"],
)
def test_every_second_worker_collects_backwards(worker, expected):
    collector = Mock(spec=pytest.Directory, config=Mock(workerinput=worker))
    hook = collect(collector)
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.send(Mock(result=[1, 2, 3]))
    assert done.value.value.result == expected
