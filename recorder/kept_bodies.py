"""The bodies that an entry keeps, and the notes on what is missing of them."""

from metering.body_notes import Reason, Side, format_note, join_notes
from recorder.exchange_content import ExchangeContent
from store.spool.format import SpooledExchange
from wire.decode import DecodedBody

_UNDECODED: dict[str, Reason] = {
    "corrupt": "damaged encoding",
    "unknown_encoding": "unknown encoding",
    "too_many_encodings": "too many encodings",
    "too_large": "too large to decode",
}


def find_request_body(exchange: SpooledExchange, content: ExchangeContent) -> bytes | None:
    """Return the request body that the entry keeps, or None."""
    has_body = exchange.request_body is not None and not exchange.head.metadata_only
    return content.request.body if has_body else None


def find_response_body(exchange: SpooledExchange, content: ExchangeContent) -> bytes | None:
    """Return the response body that the entry keeps, None without one; it may be empty or cut off."""
    has_body = exchange.response is not None and not exchange.head.metadata_only
    return content.response.body if has_body else None


def note_missing(exchange: SpooledExchange, content: ExchangeContent) -> str | None:
    """Return the notes on parts of the bodies that are not kept or not decoded, None without any."""
    is_whole = content.has_whole_response and content.request.problem is None
    if is_whole and exchange.request_body is not None and not exchange.head.metadata_only:
        return None
    return join_notes(
        _note_request(exchange, content.request), _note_response(exchange, content.response)
    )


def _note_request(exchange: SpooledExchange, decoded: DecodedBody) -> str | None:
    if exchange.head.metadata_only:
        return format_note("request", "not kept", "metadata only")
    if exchange.request_body is None:
        # The proxy leaves a body out for one of two reasons, and knows no size of one too large.
        is_too_large = exchange.head.request_bytes is None
        return format_note(
            "request", "not kept", "too large to hold" if is_too_large else "disk reserve"
        )
    return _note_decoding("request", decoded)


def _note_response(exchange: SpooledExchange, decoded: DecodedBody) -> str | None:
    has_begun = exchange.response is not None
    if exchange.ending.response_lost:
        return format_note(
            "response", "incomplete" if has_begun else "not kept", "spool not writable"
        )
    if exchange.head.metadata_only:
        return format_note("response", "not kept", "metadata only") if has_begun else None
    return _note_decoding("response", decoded)


def _note_decoding(side: Side, decoded: DecodedBody) -> str | None:
    # What was cut on its way is decoded as far as it came: nothing of it is missing.
    if decoded.problem is None or decoded.problem == "truncated":
        return None
    return format_note(side, "as received", _UNDECODED[decoded.problem])
