from typing import Any

import orjson
from hypothesis import given, strategies as st

from wire.json_places import JsonText, Place

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
    text = JsonText(body)
    check(text, text.find_value(), value)


def check(text: JsonText, place: Place, value: object) -> None:
    body = text.body
    assert text.read(place) == value
    assert body[place.start : place.end].strip() == body[place.start : place.end]
    members, items = list(text.list_members(place)), list(text.list_items(place))
    assert [name for name, _ in members] == (list(value) if isinstance(value, dict) else [])
    assert len(items) == (len(value) if isinstance(value, list) else 0)
    for name, member in members:
        assert isinstance(value, dict)
        check(text, member, value[name])
    for item, inner in zip(items, value if isinstance(value, list) else [], strict=True):
        check(text, item, inner)


def test_brackets_and_quotes_within_strings_are_text():
    body = rb'{"a\"}]": ["\\", "]}\"{["], "b":-1.5e3 }'
    text = JsonText(body)
    members = dict(text.list_members(text.find_value()))
    assert {name: text.read(place) for name, place in members.items()} == orjson.loads(body)


def test_ten_thousand_levels_are_skipped_without_recursion():
    body = b"[" * 10_000 + b"]" * 10_000
    assert JsonText(body).find_value() == Place(0, 20_000)
