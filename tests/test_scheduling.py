import re

import pytest

from tests import ROOT
from tests.scheduling import GROUPS, SHARED, FileScheduling
from tests.sources import find_tests


@pytest.mark.parametrize(
    ("folder", "use"),
    [
        ("", r"\b(shared_service: Service|live: Endpoint|: EndpointFactory)\b"),
        ("", r"(import|from|import_lazily\(\") ?anthropic\b|sdk_\w+ import|tests\.wire\.sdk_"),
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
