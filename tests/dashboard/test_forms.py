"""Forms: that all are read by ``read_form``, which checks where they come from."""

import re

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount

from dashboard.forms import read_form
from tests.dashboard.people import BASE_URL

UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# What is not a form, by its path, with the status of its refusal; every other address answers 403.
EXCEPTIONS = {
    # The API authenticates by a header that no page elsewhere can send, and reads no cookie.
    "/api": 401,
    # Traces and files are only read: every unsafe method is refused, from wherever it comes.
    "/traces": 405,
    "/-/static": 405,
    "/static": 405,
}
ELSEWHERE: tuple[dict[str, str], ...] = (
    {},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site", "origin": BASE_URL},
    {"sec-fetch-site": "same-site"},
)


def list_unsafe(routes, prefix=""):
    """Yield method and path of each route below these that may change something."""
    for route in routes:
        path = prefix + route.path
        if isinstance(route, Mount) and route.routes:
            yield from list_unsafe(route.routes, path)
            continue
        if isinstance(route, Mount):
            path += "/file"
        methods = getattr(route, "methods", None) or UNSAFE
        filled = path.replace("{rest:path}", "/usage").replace(
            "{id}", "01a1fd49-2d8c-7368-8b14-00bb923ac775"
        )
        yield from ((method, filled) for method in sorted(methods & UNSAFE))


def find_exception(path):
    return next((start for start in EXCEPTIONS if re.match(rf"{start}(/|$)", path)), None)


@pytest.mark.slow
def test_no_address_of_the_service_takes_a_form_of_another_origin(app, ann):
    fields = {"name": "x", "email": "x@example.org", "organization_id": ann.organization_id}
    exceptions = set()
    for method, path in list_unsafe(app.routes):
        exception = find_exception(path)
        exceptions.add(exception)
        for headers in ELSEWHERE:
            answer = ann.browser.request(method, path, data=fields, headers=headers)
            assert answer.status_code == EXCEPTIONS.get(exception, 403), (method, path, headers)
    assert exceptions == {*EXCEPTIONS, None}, "an exception that is not needed"
    assert ann.get("/settings/data").status_code == 200, "still signed in"


async def test_a_client_that_leaves_before_the_end_of_its_form_is_an_ordinary_refusal():
    messages = iter(
        [
            {"type": "http.request", "body": b"email=a", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive():
        return next(messages)

    headers = [(b"host", b"meter.example:8080"), (b"origin", BASE_URL.encode())]
    scope = {"type": "http", "method": "POST", "path": "/sign-in", "headers": headers}
    with pytest.raises(HTTPException) as raised:
        await read_form(Request(scope, receive), BASE_URL)
    assert raised.value.status_code == 400
