"""Characters per token of a model's output, and estimates of numbers of tokens from them.

The figures of a model are sums over complete responses, whose tokens upstream has counted. A
constant ratio is added with the weight of some tokens: it decides while there are no responses, and
matters little later. Thinking has a ratio of its own, because the shown text may be a summary of
the counted one."""

from metering.delivered import Delivered, OutputSize, measure
from metering.usage import Usage
from wire.json_reading import MAX_COUNT

# Found by comparing recorded responses with their counts; see bench/estimates.py.
CHARACTERS_PER_TOKEN, THINKING_CHARACTERS_PER_TOKEN = 3.7, 4.0
CONSTANT_TOKENS = 50
END_CHARACTERS = 16  # for the tokens that end a response
# Outside of it, the text is not what was counted: it is left out, or repeated.
LEAST_RATIO, LARGEST_RATIO = 1.8, 8.0


def measure_output(usage: Usage, body: bytes) -> OutputSize | None:
    """Return the size of the output of a complete response, or None.

    None if its characters and its tokens are not of the same output: after a fallback, or if thinking
    was counted together with the rest."""
    tokens = usage.tokens.output_tokens
    if usage.source != "final" or not tokens or usage.hops:
        return None
    delivered = measure(body)
    if usage.thinking_tokens is None and (
        delivered.thinking_characters or delivered.hides_thinking
    ):
        return None
    thinking_tokens = min(usage.thinking_tokens or 0, tokens)
    text = _keep_likely(delivered.characters + END_CHARACTERS, tokens - thinking_tokens)
    thinking = _keep_likely(delivered.thinking_characters, thinking_tokens)
    if not text[1] and not thinking[1]:
        return None
    return OutputSize(
        characters=text[0],
        tokens=text[1],
        thinking_characters=thinking[0],
        thinking_tokens=thinking[1],
    )


def is_estimable(usage: Usage) -> bool:
    """Return whether the counts are those of a stream whose output continued after they were made.

    After a stop reason the output had ended and was counted."""
    return usage.source == "partial" and not usage.is_document and usage.stop_reason is None


def estimate_tokens(delivered: Delivered, size: OutputSize) -> int:
    """Return the estimated tokens of delivered output, by the size of the model's complete responses."""
    text = (CHARACTERS_PER_TOKEN * CONSTANT_TOKENS + size.characters) / (
        CONSTANT_TOKENS + size.tokens
    )
    thinking = (THINKING_CHARACTERS_PER_TOKEN * CONSTANT_TOKENS + size.thinking_characters) / (
        CONSTANT_TOKENS + size.thinking_tokens
    )
    tokens = delivered.characters / text + delivered.thinking_characters / thinking
    return min(round(tokens), MAX_COUNT)


def _keep_likely(characters: float, tokens: float) -> tuple[float, float]:
    is_likely = tokens > 0 and LEAST_RATIO <= characters / tokens <= LARGEST_RATIO
    return (characters, tokens) if is_likely else (0, 0)
