"""Choosing cases by their names."""

import pytest

from tests.faults.cases import CASES
from tests.faults.choosing import find_named


def test_cases_are_chosen_by_texts_in_their_names() -> None:
    chosen = find_named(CASES, "kill -9 of up,TERM to a worker")
    assert [case.name for case in chosen] == ["kill -9 of up", "TERM to a worker"]
    assert find_named(CASES, "") == list(CASES)


def test_a_name_of_no_case_ends_the_programme() -> None:
    with pytest.raises(SystemExit, match="no case has 'kill -10' in its name: nothing"):
        find_named(CASES, "kill -10")
