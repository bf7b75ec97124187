from http import HTTPStatus

from manage.api.endpoint_operations import create_endpoint, get_endpoint
from manage.api.refusals import explain
from runtime.errors import ForbiddenError, LimitReachedError, NotFoundError


def test_an_operation_has_words_of_its_own_for_what_is_not_found():
    error = NotFoundError("there is no proxy endpoint 'x'; `taximeter endpoints list` shows them")
    refused = explain(get_endpoint, error)
    assert (refused.status, refused.detail.code) == (HTTPStatus.NOT_FOUND, "not_found")
    assert refused.detail.message == "There is no such proxy endpoint in your organisation."


def test_a_member_removed_during_a_request_is_refused_in_the_error_s_words():
    refused = explain(create_endpoint, ForbiddenError("you are no member any more"))
    assert (refused.status, refused.detail.code) == (HTTPStatus.FORBIDDEN, "forbidden")
    assert refused.detail.message == "You are no member any more."


def test_an_error_without_a_code_of_its_own_has_that_of_its_kind():
    refused = explain(create_endpoint, LimitReachedError("there are too many"))
    assert (refused.status, refused.detail.code) == (HTTPStatus.CONFLICT, "conflict")
