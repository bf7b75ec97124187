"""Reading of a spooled exchange: decoded bodies, facts of the request, usage of the response."""

from functools import partial
from typing import NamedTuple

from metering.chat_completions import read_chat_usage
from metering.cut_streams import estimate_usage
from metering.delivered import OutputSize
from metering.output_estimate import is_estimable, measure_output
from metering.request_facts import RequestFacts, make_facts
from metering.usage import Usage, read_usage
from recorder.output_sizes import SizeSource
from recorder.requests import ReadRequest, Requests
from store.spool.format import SpooledExchange
from wire.decode import DecodedBody, decode_body

_NO_BODY = DecodedBody(body=b"", text=b"")


class ExchangeContent(NamedTuple):
    """The content of an exchange.

    ``read_request`` is None if the request body was not kept; ``facts`` are then those that the proxy
    read. ``has_whole_response``: no part of the response was lost or could not be decoded.
    ``output_size`` is None unless the output was measured."""

    request: DecodedBody
    read_request: ReadRequest | None
    facts: RequestFacts
    response: DecodedBody
    has_whole_response: bool
    usage: Usage
    output_size: OutputSize | None


def is_chat(exchange: SpooledExchange) -> bool:
    """Return whether the exchange is a chat completion rather than a message."""
    return exchange.head.record == "chat_completions"


def read_content(
    exchange: SpooledExchange, requests: Requests, sizes: SizeSource
) -> ExchangeContent:
    """Return the content of an exchange. Raises only MemoryError.

    The memory of ``requests`` saves time and does not change the result; ``sizes`` has the characters
    per token for estimating the output of a cut stream."""
    head = exchange.head
    request = decode_body(exchange.request_body or b"", head.content_encoding)
    read_request = None
    if exchange.request_body is not None:
        read_request = requests.read(request.text, head.session_id, head.agent_id)
    facts = head.facts if read_request is None else make_facts(read_request.fields)
    response = _decode_response(exchange)
    is_whole = response.is_readable_to_its_end and not exchange.ending.response_lost
    usage = _read_usage(exchange, response, facts, is_whole=is_whole)
    output_size = None
    if not is_chat(exchange):  # what was delivered is counted in messages alone
        if is_estimable(usage) and is_whole:
            find_size = partial(sizes.find_size, head.organization_id)
            usage = estimate_usage(usage, response.text, find_size, request.text)
        elif usage.source == "final" and sizes.is_wanted(head.organization_id, usage.model):
            output_size = measure_output(usage, response.text)
    return ExchangeContent(request, read_request, facts, response, is_whole, usage, output_size)


def _decode_response(exchange: SpooledExchange) -> DecodedBody:
    if exchange.response is None:
        return _NO_BODY
    return decode_body(exchange.response_body, exchange.response.content_encoding)


def _read_usage(
    exchange: SpooledExchange, decoded: DecodedBody, facts: RequestFacts, *, is_whole: bool
) -> Usage:
    response = exchange.response
    read = read_chat_usage if is_chat(exchange) else partial(read_usage, cache_ttl=facts.cache_ttl)
    return read(
        response.status_code if response else None,
        response.content_type if response else None,
        decoded.text,
        is_complete=exchange.ending.outcome == "complete" and is_whole,
    )
