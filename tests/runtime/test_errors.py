import pytest

from runtime.errors import (
    ERRORS,
    ConflictError,
    LimitReachedError,
    SlugTakenError,
    as_sentence,
    restore_error,
)


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_itself_again_after_a_response(kind):
    sent = kind("not so", "name")
    restored = restore_error(sent.status, sent.code, str(sent), sent.field)
    assert restored is not None
    assert (type(restored), str(restored), restored.field) == (kind, "not so", "name")


def test_a_code_that_is_not_known_leaves_the_error_of_its_status():
    assert type(restore_error(409, "of_a_newer_version", "no")) is ConflictError
    assert type(restore_error(409, ["no code"], "no")) is ConflictError
    assert restore_error(418, "teapot", "no") is None


def test_a_more_special_error_has_the_status_of_its_kind():
    assert (SlugTakenError.status, LimitReachedError.status) == (409, 409)
    assert (SlugTakenError.code, LimitReachedError.code) == ("slug_taken", "conflict")


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        (
            "a name must not be longer than 200 characters",
            "A name must not be longer than 200 characters.",
        ),
        ("x@y.example is already a member", "x@y.example is already a member."),
        ("'A b' is not a valid slug", "'A b' is not a valid slug."),
        ("it is a sentence.", "it is a sentence."),
        ("", "."),
    ],
)
def test_messages_become_sentences(clause, sentence):
    assert as_sentence(clause) == sentence
