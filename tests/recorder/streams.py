"""Streams in the spool that have only begun."""

import gzip
import json

from store.spool.format import ResponseHead
from store.spool.writer import SpoolFile, SpoolRun
from tests.store.spool.heads import make_head

MODEL = "claude-opus-5-5"  # $4 per million tokens of input, $20 of output


def begin_stream(
    run: SpoolRun,
    entry_id: str,
    organization_id: str,
    proxy_endpoint_id: str,
    created_at: str,
    input_tokens: int | None,
    *,
    text: str = "",
    kind: str = "api_key",
    encoding: str | None = None,
    body: bytes = b"{}",
) -> SpoolFile:
    """Spool a call in flight, with the first event of its response and some text, or without a response
    where no count of its input is given."""
    head = make_head(
        entry_id,
        created_at=created_at,
        organization_id=organization_id,
        proxy_endpoint_id=proxy_endpoint_id,
        request_bytes=len(body),
        credential_kind="token" if kind == "token" else "api_key",
    )
    file = run.create(head, body)
    if input_tokens is None:
        return file
    usage = {"input_tokens": input_tokens, "output_tokens": 1}
    events = [
        {"type": "message_start", "message": {"model": MODEL, "usage": usage}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}},
    ]
    stream = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events)
    response = ResponseHead(
        status_code=200, content_type="text/event-stream", content_encoding=encoding
    )
    file.write_response_head(response, 1.0)
    file.write_chunk(gzip.compress(stream) if encoding else stream, 2.0)
    return file
