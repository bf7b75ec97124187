"""A canned query: the example of the trail."""

import pytest

from tests.trails.contributing import read_example

HEADING = "Add a canned query"

CHECK = """
from runtime import clock


def test_the_service_shows_it(ann):
    ann.record({"client": "curl"}, created_at=clock.format_ms(clock.now()))
    assert "Calls by client" in ann.get("/traces").text
    page = ann.get("/traces/calls_by_client").text
    assert "Calls of each client." in page
    assert "curl" in page
    assert "curl" not in ann.get("/traces/calls_by_client?days=none").text
"""


@pytest.mark.slow
def test_the_trail(copy):
    folder = "dashboard/tables/metadata"
    copy.create(f"{folder}/queries/calls_by_client.sql", read_example(HEADING))
    copy.check_named(
        HEADING,
        choices=("dashboard/tables/cells.py", f"{folder}/tables.toml"),  # what results are shown by
    )
    copy.generate()
    copy.create("tests/dashboard/test_walked.py", CHECK)
    copy.run_tests("tests/dashboard/test_walked.py", "tests/dashboard/tables/test_metadata.py")
