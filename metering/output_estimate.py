"""Characters per token of a model's output, and the numbers of tokens that are estimated by them.

The figures of a model are sums over complete responses, whose tokens upstream has counted. A constant
stands for some tokens besides: it decides while there is nothing else, and little later on. Thinking has
a figure of its own, because what is shown of it may be a summary of what is counted.
"""

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

    None where its characters and its tokens are not of the same output: after a fallback, and where
    thinking was counted together with the rest."""
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
    """Return whether the counts are those of a stream whose output went on after they were made.

    Where a stop reason has come, the output had ended and was counted."""
    return usage.source == "partial" and not usage.is_document and usage.stop_reason is None


def estimate_tokens(delivered: Delivered, size: OutputSize) -> int:
    """Return the number of tokens of what a model delivered, by the size of its complete responses."""
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
