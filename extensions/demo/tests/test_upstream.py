"""The server of the scripted upstream, for requests that are none of the demo's."""

import httpx
import pytest

from extensions.demo.upstream import DemoUpstream
from tests.rawclient import TIMEOUT_S


@pytest.mark.parametrize("body", [b"", b"[]", b"no JSON", b'{"model": "claude-haiku-4-5"}'])
def test_a_request_of_somebody_else_gets_a_message_that_says_where_it_is(body):
    with DemoUpstream(0).serving() as url, httpx.Client(timeout=TIMEOUT_S) as client:
        response = client.post(f"{url}/v1/messages", content=body)
        assert response.status_code == 200
        assert "no model behind it" in response.json()["content"][0]["text"]
        counted = client.post(f"{url}/v1/messages/count_tokens", content=body)
    assert counted.json() == {"input_tokens": -(-len(body) // 4)}
