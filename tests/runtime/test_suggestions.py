import pytest

from runtime.suggestions import MAX_CHARS, suggest

KNOWN = ("day", "model", "endpoint")


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("modle", " (did you mean 'model'?)"),
        ("models", " (did you mean 'model'?)"),
        ("zebra", ""),
        ("", ""),
        ("day" * MAX_CHARS, ""),
    ],
)
def test_names_that_are_near_are_suggested(name, note):
    assert suggest(name, KNOWN) == note


def test_several_are_named():
    assert suggest("lisst", ["list", "lists"]) == " (did you mean 'list' or 'lists'?)"
