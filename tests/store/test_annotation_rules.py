import pytest

from runtime.errors import InvalidInputError, NotFoundError
from store.annotation_rules import check_label, check_note, parse_kind


def test_a_label_is_in_small_letters_without_space_around_it():
    assert check_label("  Expensive Räume ") == "expensive räume"
    assert len(check_label("x" * 40)) == 40


@pytest.mark.parametrize(
    "text", ["", "  ", "x" * 41, "a\nb", "a\x00", "a/b", "\x1b[31m", "a\u2028b"]
)
def test_other_labels_are_refused(text):
    with pytest.raises(InvalidInputError) as caught:
        check_label(text)
    assert caught.value.field == "label"


def test_a_note_may_have_lines():
    assert check_note(" one\r\ntwo\tthree \n") == "one\ntwo\tthree"
    assert len(check_note("x" * 2_000)) == 2_000


@pytest.mark.parametrize("text", ["", " \n ", "x" * 2_001, "a\x00", "\x1b[31m", "\ud800"])
def test_other_notes_are_refused(text):
    with pytest.raises(InvalidInputError) as caught:
        check_note(text)
    assert caught.value.field == "text"


def test_labels_are_of_sessions_and_calls():
    assert [parse_kind(kind) for kind in ("session", "call")] == ["session", "call"]
    for text in ("", "sessions", "Session"):
        with pytest.raises(NotFoundError):
            parse_kind(text)
