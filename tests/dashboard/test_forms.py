"""Reading forms: what a client that leaves in the middle of one costs."""

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dashboard.forms import read_form

BASE_URL = "http://meter.example"


async def test_a_client_that_leaves_before_the_end_of_its_form_is_an_ordinary_refusal():
    messages = iter(
        [
            {"type": "http.request", "body": b"email=a", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive():
        return next(messages)

    headers = [(b"host", b"meter.example"), (b"origin", BASE_URL.encode())]
    scope = {"type": "http", "method": "POST", "path": "/sign-in", "headers": headers}
    with pytest.raises(HTTPException) as raised:
        await read_form(Request(scope, receive), BASE_URL)
    assert raised.value.status_code == 400
