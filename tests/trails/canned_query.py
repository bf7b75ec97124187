"""A canned query: the example of the trail."""

from tests.trails.contributing import read_example
from tests.trails.copies import Copy, Trail

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


def walk(copy: Copy) -> None:
    folder = "dashboard/tables/metadata"
    copy.create(f"{folder}/queries/calls_by_client.sql", read_example(HEADING))


TRAIL = Trail(
    heading=HEADING,
    walk=walk,
    # What results are shown by.
    choices=("dashboard/tables/cells.py", "dashboard/tables/metadata/tables.toml"),
    checks={"tests/dashboard/test_walked_query.py": CHECK},
    tests=("tests/dashboard/tables/test_metadata.py",),
)
