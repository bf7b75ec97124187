import pytest
from hypothesis import given, strategies as st

from runtime.errors import InvalidInputError
from store.control.names import MAX_LENGTH, check_name


@pytest.mark.parametrize(
    "name",
    ["a", "Café #1", "北京", "שלום", "مرحبا", "👩‍👩‍👧", "e\u0301", "a\u202eb", "x" * MAX_LENGTH],
)
def test_any_script_makes_a_name(name):
    assert check_name(name, "a key") == name


def test_space_around_a_name_is_dropped():
    assert check_name("  My team\t", "a key") == "My team"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "a key needs a name"),
        (" \t\n", "a key needs a name"),
        ("\u200b\u200d", "a key needs a name"),
        ("a\x00b", "one line"),
        ("a\nb", "one line"),
        ("a\x1b[2Jb", "one line"),
        ("a\u2028b", "one line"),
        ("\ud800", "one line"),
        ("x" * (MAX_LENGTH + 1), "longer than 200"),
        ("x" * 10_000, "longer than 200"),
    ],
)
def test_what_cannot_be_shown_or_stored_is_refused(name, why):
    with pytest.raises(InvalidInputError, match=why) as raised:
        check_name(name, "a key")
    assert raised.value.field == "name"


@given(st.text(st.characters(categories=None), max_size=300))
def test_every_text_is_a_name_that_can_be_stored_or_is_refused(text):
    try:
        name = check_name(text, "a key")
    except InvalidInputError:
        return
    assert name.encode()
    assert 0 < len(name) <= MAX_LENGTH
    assert check_name(name, "a key") == name
