from typing import Any

import orjson
from hypothesis import given, strategies as st

from conversations.json_spans import Place, find_value, list_items, list_members

VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, st.booleans(), st.sampled_from([b"", b" ", b"\n\t "]))
def test_every_value_is_found_where_it_stands(value, is_indented, space):
    option = orjson.OPT_INDENT_2 if is_indented else None
    body = space + orjson.dumps(value, option=option) + space
    check(body, find_value(body), value)


def check(body: bytes, place: Place, value: object) -> None:
    assert place.read(body) == value
    assert body[place.start : place.end].strip() == body[place.start : place.end]
    members, items = list(list_members(body, place)), list(list_items(body, place))
    assert [name for name, _ in members] == (list(value) if isinstance(value, dict) else [])
    assert len(items) == (len(value) if isinstance(value, list) else 0)
    for name, member in members:
        assert isinstance(value, dict)
        check(body, member, value[name])
    for item, inner in zip(items, value if isinstance(value, list) else [], strict=True):
        check(body, item, inner)


def test_brackets_and_quotes_within_strings_are_text():
    body = rb'{"a\"}]": ["\\", "]}\"{["], "b":-1.5e3 }'
    members = dict(list_members(body, find_value(body)))
    assert {name: place.read(body) for name, place in members.items()} == orjson.loads(body)


def test_ten_thousand_levels_are_skipped_without_recursion():
    body = b"[" * 10_000 + b"]" * 10_000
    assert find_value(body) == Place(0, 20_000)
