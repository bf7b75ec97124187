"""Strings of requests that come in pieces; what the search makes of them is tested with it."""

import orjson
import pytest

from wire.request_strings import MAX_DEPTH, MAX_VALUES, MESSAGES, Position

BODY = orjson.dumps(
    {
        "model": "m",
        "system": "kind",
        "messages": [
            {"content": [{"text": "found", "type": "tool_result", "id": "t"}], "role": "user"}
        ],
    }
)
WHERE = (b'{"model', b"kind", b',"messages', b'{"content', b"found", b',"id', b'}],"role')


@pytest.mark.parametrize("at", [BODY.index(each) + 2 for each in WHERE])
def test_strings_are_the_same_whether_a_request_is_cut_or_not(at):
    before = Position()
    found = before.walk(BODY[:at])
    after = Position.thaw(before.freeze())
    found += after.walk(BODY[at:])
    assert b"".join(string for *_, string in found) == b"kindfound"
    assert found[-1][0] == MESSAGES
    assert (after.message.name, after.block.name) == ("user", "tool_result")


def test_a_request_that_is_all_brackets_takes_no_memory():
    position = Position()
    for _ in range(3):
        position.walk(b"[" * 1_000)
    assert len(position.freeze()) < 2 * MAX_DEPTH
    assert Position.thaw(position.freeze()).freeze() == position.freeze()
    heavy = b'{"messages":[{"role":"user","content":["x"' + b",[]" * (MAX_VALUES + 1)
    assert Position().walk(heavy) == []
