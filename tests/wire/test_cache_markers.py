import pytest

from wire.cache_markers import put_marker

MARK = {"type": "ephemeral"}


def test_a_marker_goes_where_its_path_leads():
    request = {"system": [{"type": "text"}], "messages": [{"content": [{}, {}]}]}
    put_marker(request, ["system", 0], MARK)
    put_marker(request, ["messages", 0, "content", 1], MARK)
    assert request["system"] == [{"type": "text", "cache_control": MARK}]
    assert request["messages"] == [{"content": [{}, {"cache_control": MARK}]}]


@pytest.mark.parametrize(
    "path", [["system", 1], ["system", -1], ["system"], ["tools", 0], ["system", "a"], [0], [None]]
)
def test_a_path_that_leads_nowhere_changes_nothing(path):
    request: dict[str, list[dict[str, str]]] = {"system": [{}]}
    put_marker(request, path, MARK)
    assert request == {"system": [{}]}
