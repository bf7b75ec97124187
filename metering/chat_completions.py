"""The usage of a chat completion: upstream's interface for programs written for OpenAI's.

It does not cache, so each of its two counts is one class of tokens. A stream has them only if the
request asked for them; otherwise the usage of the call is unknown."""

from metering.token_counts import TokenCounts
from metering.usage import Usage, is_sse
from wire.chat_completions import INPUT_TOKENS, OUTPUT_TOKENS, read_chat_envelope
from wire.envelope import is_document


def read_chat_usage(
    status: int | None, content_type: str | None, body: bytes, *, is_complete: bool
) -> Usage:
    """Return the usage in a decoded body, whole or cut off.

    The arguments are those of ``read_usage``. Never raises."""
    said = read_chat_envelope(body)
    is_whole = is_document(body)
    is_failed = is_whole and status is not None and status >= 400
    tokens = TokenCounts(
        input_tokens=said.usage.count(INPUT_TOKENS), output_tokens=said.usage.count(OUTPUT_TOKENS)
    )
    is_final = is_whole or said.has_end or is_complete
    return Usage(
        streamed=is_sse(content_type, body),
        is_document=is_whole and bool(said.message),
        source="none" if not tokens.are_known else "final" if is_final else "partial",
        model=said.model,
        tokens=tokens,
        stop_reason=said.stop_reason,
        has_message_stop=said.has_end,
        has_error=said.is_error or is_failed,
        error_type=said.error_type,
        envelope=said,
    )
