import json

import pytest

from tests.metering.test_chat_completions import DOCUMENT, END, LAST, PARTS

REQUEST = {
    "model": "claude-opus-5",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Why does it tick?"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "tock"},
    ],
    "tools": [{"type": "function", "function": {"name": "listen", "parameters": {}}}],
    "stream": True,
}


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_chat_completion_has_a_page_with_its_question_and_its_response(
    client, ann, is_streamed
):
    response = b"".join((*PARTS, LAST, END)) if is_streamed else json.dumps(DOCUMENT).encode()
    ann.record(
        product="chat_completions",
        streamed=is_streamed,
        request_body=json.dumps(REQUEST).encode(),
        response_body=response,
    )
    page = await client.get("/calls/1", headers=ann.cookie)
    assert page.status_code == 200
    assert "Why does it tick?" in page.text
    details = await client.get("/calls/1/details", headers=ann.cookie)
    assert "chat_completions" in details.text
    raw = await client.get("/calls/1/raw", headers=ann.cookie)
    assert "Send it again" not in raw.text, "it would be sent as a message"


async def test_a_chat_completion_that_ended_with_an_error_says_so(client, ann):
    error = {"error": {"type": "overloaded_error", "message": "Too many tocks."}}
    ann.record(
        product="chat_completions",
        streamed=True,
        request_body=json.dumps(REQUEST).encode(),
        response_body=b"".join((*PARTS[:-1], b"data: %b\n\n" % json.dumps(error).encode())),
    )
    page = await client.get("/calls/1", headers=ann.cookie)
    assert "Hey" in page.text
    assert "Too many tocks." in page.text
