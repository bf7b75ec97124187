"""The short form of the programme: the quick cases, one after the other, on one service under one load."""

from collections.abc import Iterator

import pytest

from tests.faults.cases import CASES
from tests.faults.running import choose, is_possible, open_scene
from tests.faults.scene import Case, Scene

RATE, LASTS_S, CALLS_BEFORE = 40.0, 0.3, 12
SHORT = [case for case in choose(CASES, None) if case.in_suite]
pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with open_scene(tmp_path_factory.mktemp("faults"), RATE, LASTS_S) as scene:
        yield scene
        assert scene.verify() == []


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.name)
def test_under_a_fault_nothing_is_lost_double_or_wrong_and_nobody_else_is_disturbed(
    scene: Scene, case: Case
) -> None:
    if not is_possible(case):
        pytest.skip("root may write everywhere; util-linux brings setpriv, which takes that away")
    result = scene.run(case, CALLS_BEFORE)
    verdict = result.verdict
    assert verdict.wrong == []
    assert (verdict.lost, verdict.double, verdict.disturbed) == ([], [], [])
    assert verdict.calls >= CALLS_BEFORE
    assert result.find_growth() == []
