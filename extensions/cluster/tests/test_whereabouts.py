"""The node with people knows where the calls of each organisation are."""

from functools import partial

import pytest

from extensions.cluster import copies
from extensions.cluster.copies import Copy
from extensions.cluster.keys import COPIES
from extensions.cluster.known_copies import KnownCopies
from extensions.cluster.page_nodes import PageNodes, PageNodesFile
from extensions.cluster.whereabouts import Whereabouts, count_unserved, find_address
from runtime.setting_values import Address
from store.control.database import ControlDatabase


@pytest.fixture
def whereabouts(tmp_path, client):
    """Return what the node ``home`` knows, which keeps nothing, with a node in each of two groups."""
    for group in ("main", "copy"):
        client.xgroup_create(COPIES, group, mkstream=True)
        Copy(client, group, f"{group}-1", find_address=partial(str, f"{group}:1")).hold()
    return Whereabouts(tmp_path, client, "home", "main")


def test_pages_are_those_of_the_first_copy_and_then_of_the_other(
    whereabouts, tmp_path, client, monkeypatch
):
    file = PageNodesFile(tmp_path)
    assert file.read() is None
    assert whereabouts.run_round()
    found = file.read()
    assert found is not None
    assert [(each.id, each.address, found.is_copy(each)) for each in found.find("org")] == [
        ("main-1", "main:1", False),
        ("copy-1", "copy:1", True),
    ]
    assert KnownCopies(tmp_path).is_elsewhere("org")
    assert not whereabouts.run_round()
    client.xgroup_delconsumer(COPIES, "main", "main-1")  # it was never heard of again
    assert whereabouts.run_round()
    found = file.read()
    assert found is not None
    assert [each.id for each in found.find("org")] == ["copy-1", "main-1"]
    with ControlDatabase(tmp_path / "control.db") as control:
        control.set_up()
        assert count_unserved(whereabouts.found, control) == 0
        monkeypatch.setattr(copies, "ALIVE_S", -1.0)
        whereabouts.run_round()
        assert count_unserved(whereabouts.found, control) == 1


def test_calls_that_are_here_are_nowhere_else(tmp_path, client):
    client.xgroup_create(COPIES, "main", mkstream=True)
    Copy(client, "main", "home").hold()
    Whereabouts(tmp_path, client, "home", "main").run_round()
    assert not KnownCopies(tmp_path).is_elsewhere("org")
    found = PageNodes.read(tmp_path)
    assert found is not None
    assert (found.is_here("org"), found.find("org")) == (True, [])


@pytest.mark.parametrize(
    ("listen", "url", "expected"),
    [
        ("10.1.2.3", "redis://192.0.2.1", "10.1.2.3:80"),
        ("0.0.0.0", "redis://user:pass@127.0.0.1:6379/0", "127.0.0.1:80"),  # noqa: S104
        ("::", "rediss://[::1]:6379", "[::1]:80"),
        ("0.0.0.0", "redis+sentinel://127.0.0.1:1,192.0.2.1:2/main", "127.0.0.1:80"),  # noqa: S104
        ("0.0.0.0", "unix:///run/redis.sock", "127.0.0.1:80"),  # noqa: S104
    ],
)
def test_a_node_is_reached_where_it_listens_or_from_where_it_reaches_the_server(
    listen, url, expected
):
    assert find_address(Address(listen, 80), url) == expected
