"""All trails, walked in one copy of the project, which is generated and tested once, with all additions.

None changes what another one adds, so none works by the help of another."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from tests import trails
from tests.trails.copies import Copy, Trail

TRAILS: list[Trail] = [
    module.TRAIL
    for each in iter_modules(trails.__path__)
    if not each.name.startswith("test_")
    for module in [import_module(f"tests.trails.{each.name}")]
    if hasattr(module, "TRAIL")
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    copy = Copy(tmp_path_factory.mktemp("trails") / "copy")
    for trail in TRAILS:
        copy.walk(trail)
    return copy


@pytest.mark.parametrize("trail", TRAILS, ids=lambda trail: trail.heading)
def test_a_trail_names_the_files_that_it_changes_and_no_others(copy, trail):
    copy.check_named(trail)


def test_what_they_add_works(copy):
    copy.generate()
    copy.run_tests({path for trail in TRAILS for path in (*trail.checks, *trail.tests)})
