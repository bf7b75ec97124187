"""The page of a call begins with what the call added; the rest is asked for when it is opened."""

import base64
import html
import json
import re

import pytest

from dashboard.call.conversation import MAX_MESSAGES
from tests.dashboard.pages import Page
from tests.store.traffic import png

ANSWER = b'{"content": [{"type": "text", "text": "Done, all of it."}], "stop_reason": "end_turn"}'


def messages(count):
    """Return a conversation in which every message can be told from the others."""
    return [
        {"role": ("user", "assistant")[number % 2], "content": f"Words of {number + 1}."}
        for number in range(count)
    ]


def body_of(given, **fields):
    return json.dumps({"model": "m", "messages": given} | fields).encode()


@pytest.fixture
def ask(client, ann):
    async def ask(path, status=200, headers=None):
        answer = await client.get(path, headers=headers or ann.cookie)
        assert answer.status_code == status, answer.text
        return answer

    return ask


def text_of(answer):
    """Return what is on a page, from its first part on; not what is in the command that repeats it."""
    seen = Page(answer.text).find("main")[0].text
    return seen.partition("Raw & send againDetails")[2].partition("This call")[0] or seen


async def test_what_is_new_comes_first_and_then_the_response(ask, ann):
    before, now = messages(3), messages(5)
    fields = {"system": "Be brief.", "tools": [{"name": "read"}, {"name": "write"}]}
    ann.record(
        {"request_body": body_of(before, **fields)},
        {"request_body": body_of(now, **fields), "response_body": ANSWER},
        session_id="s",
    )
    page = await ask("/calls/2")
    seen = text_of(page)
    order = ["System prompt, 2 tools, settings", "3 earlier messages", "New in this call"]
    order += ["the response of turn 1", "Words of 4.", "Words of 5.", "Done, all of it."]
    places = [seen.index(words) for words in order]
    assert places == sorted(places)
    assert "Words of 3." not in seen
    assert "Be brief." not in seen
    older = await ask("/traces/usage/2/request/messages/1-3/part")
    assert [f"Words of {n}." in older.text for n in range(1, 6)] == [True] * 3 + [False] * 2
    front = await ask("/traces/usage/2/request/front/part")
    assert "Be brief." in front.text
    assert "write" in front.text


async def test_of_the_first_call_of_a_conversation_all_messages_are_shown(ask, ann):
    ann.record(request_body=body_of(messages(3), system="Be brief."), session_id="s")
    seen = text_of(await ask("/calls/1"))
    assert "New in this call" not in seen
    assert all(f"Words of {n}." in seen for n in (1, 2, 3))
    assert "Be brief." not in seen


async def test_a_long_conversation_comes_in_parts_that_lead_to_each_other(ask, ann):
    count = 2 * MAX_MESSAGES + 7
    ann.record(request_body=body_of(messages(count)))
    found: list[int] = []
    address = "/calls/1"
    while address:
        part = await ask(address)
        numbers = [int(n) for n in re.findall(r"Words of (\d+)\.", part.text)]
        assert len(numbers) <= MAX_MESSAGES
        found = numbers + found
        earlier = re.findall(r'data-part="([^"]+/messages/[^"]+)"', part.text)
        assert len(earlier) <= 1
        address = earlier[0] if earlier else ""
    assert found == list(range(1, count + 1))


async def test_a_message_that_is_not_as_the_call_before_sent_it_is_named(ask, ann):
    before, now = messages(3), messages(5)
    now[2] = {"role": "user", "content": "Other words."}
    ann.record({"request_body": body_of(before)}, {"request_body": body_of(now)}, session_id="s")
    assert "Message 3 is not as call 1 sent it." in text_of(await ask("/calls/2"))


async def test_a_call_that_was_sent_again_has_nothing_new(ask, ann):
    ann.record(*[{"request_body": body_of(messages(3))}] * 2, session_id="s")
    seen = text_of(await ask("/calls/2"))
    assert "No message is new" in seen
    assert "3 earlier messages" in seen


async def test_new_leads_to_the_whole_prompt(ask, ann):
    ann.record(request_body=body_of(messages(3), system="Be brief.", max_tokens=77))
    link = next(a for a in Page((await ask("/calls/1")).text).find("a") if "whole conv" in a.text)
    seen = text_of(await ask(link.attributes["href"]))
    assert all(words in seen for words in ("Be brief.", "77", "Words of 1.", "Words of 3."))


# -- long texts ----------------------------------------------------------------------------------------


async def test_a_long_text_is_shown_in_part_and_in_full_when_it_is_opened(ask, ann):
    output = "".join(f"line {number}\n" for number in range(20_000))
    result = {"type": "tool_result", "tool_use_id": "t", "content": output}
    ann.record(request_body=body_of([{"role": "user", "content": [result]}]))
    page = await ask("/calls/1")
    assert len(page.text) < 120_000
    assert f"Show all ({len(output) - 50_000:,} more characters)" in html.unescape(page.text)
    (address,) = re.findall(r'data-part="([^"]+/block/[^"]+)"', page.text)
    assert output in html.unescape((await ask(address)).text)


# -- images and documents ------------------------------------------------------------------------------


def image_of(data, media_type="image/png"):
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


PICTURES = [
    (png(2, 2), "image/png"),
    (b"\xff\xd8\xff\xe0" + bytes(60), "image/jpeg"),
    (b"GIF89a" + bytes(60), "image/gif"),
    (b"RIFF\0\0\0\0WEBP" + bytes(60), "image/webp"),
]


@pytest.mark.parametrize(("data", "media_type"), PICTURES, ids=lambda each: str(each)[:10])
async def test_an_image_comes_from_an_address_of_our_own_as_what_it_is(ask, ann, data, media_type):
    ann.record(
        request_body=body_of([{"role": "user", "content": [image_of(data, "text/html")]}]),
        response_body=ANSWER,
    )
    page = Page((await ask("/calls/1")).text)
    (picture,) = page.find("img")
    answer = await ask(picture.attributes["src"])
    assert picture.attributes["alt"].startswith("Image, ")
    assert answer.content == data
    assert answer.headers["content-type"] == media_type, "whatever the body says"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    "data",
    [b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", b"<html>", b"%PDF-1.7", b""],
)
async def test_what_is_no_image_of_a_known_type_is_a_download(ask, ann, data):
    document = image_of(data, "image/svg+xml") | {"type": "document", "title": "<b>T</b>"}
    ann.record(request_body=body_of([{"role": "user", "content": [image_of(data), document]}]))
    page = Page((await ask("/calls/1")).text)
    assert not page.find("img")
    links = [a.attributes["href"] for a in page.find("a") if "/file/" in a.attributes["href"]]
    assert len(links) == 2
    for link in links:
        answer = await ask(link)
        assert answer.content == data
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


async def test_an_image_in_a_result_and_one_in_a_response_have_addresses_too(ask, ann):
    data = png(2, 2)
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image_of(data)]}
    response = json.dumps({"content": [image_of(data)]}).encode()
    ann.record(
        request_body=body_of([{"role": "user", "content": [result]}]), response_body=response
    )
    pictures = Page((await ask("/calls/1")).text).find("img")
    addresses = [each.attributes["src"] for each in pictures]
    assert addresses == [
        "/traces/usage/1/request/file/0.0.0",
        "/traces/usage/1/response/file/0",
    ]
    for address in addresses:
        assert (await ask(address)).content == data


async def test_an_image_from_elsewhere_is_never_loaded(ask, ann):
    image = {"type": "image", "source": {"type": "url", "url": "https://elsewhere.example/a.png"}}
    ann.record(request_body=body_of([{"role": "user", "content": [image, image]}]))
    page = await ask("/calls/1")
    assert "https://elsewhere.example/a.png" in text_of(page)
    assert not Page(page.text).find("img")


@pytest.mark.parametrize("place", ["0.0", "0.1.0", "5.0", "999999", "s.0"])
async def test_where_there_is_no_file_and_no_block_there_is_none(ask, ann, place):
    ann.record(request_body=body_of(messages(1), system="Be brief."), response_body=ANSWER)
    await ask(f"/traces/usage/1/request/file/{place}", 404)
    await ask(f"/traces/usage/1/response/file/{place}", 404)
    await ask(f"/traces/usage/1/request/block/{place}9", 404)
