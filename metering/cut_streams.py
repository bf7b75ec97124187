"""Estimates of the usage of the passes of a stream that was cut off.

The first event has the counts of the first pass: its prompt, and a placeholder for its output. The
output that each pass delivered is divided by the characters per token of its own model
(``metering.output_estimate``). Passes that the stream had listed by the time of the cut are taken
from the list. A model that takes over from another one reads the same prompt, which is estimated to
have the same size. The prompt of an advisor, the one after a compaction, and tokens read again
after a tool has run are reported only at the end: they are left out, and the item for the output
has a note about it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from metering.billed_passes import ATTEMPT, ATTEMPTS, find_hops
from metering.delivered import Delivered, OutputSize
from metering.delivered_passes import Part, measure_parts
from metering.entry import CostNote
from metering.output_estimate import estimate_tokens
from metering.request_facts import find_advisor_model
from metering.token_counts import ZERO
from metering.usage import Pass, Usage

COMPACTION, ADVISOR = "compaction", "advisor_message"

type FindSize = Callable[[str | None], OutputSize]
# Whether upstream has counted the prompt of a pass, or it is that of an earlier one, or nothing tells it.
type _Prompt = Literal["counted", "assumed", "unknown"]
type _Placed = tuple[int, Pass]  # how many models had declined before the pass


def estimate_usage(usage: Usage, body: bytes, find_size: FindSize, request: bytes = b"") -> Usage:
    """Return the usage of a stream that was cut off, with estimates for tokens not counted by then.

    ``find_size`` returns the size of a model's complete responses. ``request`` is the body of the
    request, which alone names the model of an advisor. The estimate for a pass is not below the count
    that upstream had sent for it."""
    parts = measure_parts(body, len(usage.hops))
    passes = _merge(usage, list(_Estimator(usage, find_size, request).estimate(parts)))
    searches = max(usage.web_search_requests or 0, sum(part.searches for part in parts))
    return replace(
        usage,
        source="estimated",
        tokens=replace(usage.tokens, output_tokens=passes[-1].tokens.output_tokens),
        web_search_requests=searches or usage.web_search_requests,
        passes=passes,
        passes_are_stale=False,
    )


def _merge(usage: Usage, estimated: Sequence[_Placed]) -> tuple[Pass, ...]:
    """Return the listed passes, and those estimated passes that the list does not have, by model.

    Output of the serving model is never taken from a list: the counts beside it are newer."""
    serving = len(usage.hops)
    listed = [
        (hop, each)
        for hop, each in zip(find_hops(usage.passes, usage.hops), usage.passes, strict=True)
        if hop < serving or each.type not in ATTEMPTS
    ]
    known = Counter(_describe(each) for each in listed)
    merged = list(listed)
    for placed in estimated:
        kind = _describe(placed)
        if known[kind] > 0:
            known[kind] -= 1
        else:
            merged.append(placed)
    return tuple(each for _, each in sorted(merged, key=_order))


def _describe(placed: _Placed) -> tuple[str | None, int | None]:
    hop, each = placed
    return (ATTEMPT, hop) if each.type in ATTEMPTS else (each.type, None)


def _order(placed: _Placed) -> tuple[int, bool]:
    hop, each = placed
    return hop, each.type in ATTEMPTS


class _Estimator:
    """The estimation of each pass of one stream from its delivered output."""

    def __init__(self, usage: Usage, find_size: FindSize, request: bytes) -> None:
        self._usage = usage
        self._find_size = find_size
        self._request = request

    def estimate(self, parts: Sequence[Part]) -> Iterator[_Placed]:
        """Yield the passes in the order of their models. The last pass is that of the serving model."""
        usage = self._usage
        models = [*(hop.from_model for hop in usage.hops), usage.model]
        # Beside a list, the counts at the top level are those of the serving model.
        first_compacts = parts[0].begins_with_compaction and not usage.passes
        is_compacted = False
        for hop, (model, part) in enumerate(zip(models, parts, strict=True)):
            for number, characters in enumerate(part.compactions):
                is_first = first_compacts and not is_compacted and number == 0
                yield (
                    hop,
                    self._make(
                        COMPACTION,
                        model,
                        Delivered(characters=characters),
                        "counted" if is_first else "unknown",
                    ),
                )
            is_compacted = is_compacted or bool(part.compactions)
            advisor = find_advisor_model(self._request) if part.advice else None
            told = [characters for characters in part.advice if advisor and characters is not None]
            for characters in told:
                yield hop, self._make(ADVISOR, advisor, Delivered(characters=characters), "unknown")
            if usage.passes:
                prompt: _Prompt = "counted" if hop == len(usage.hops) else "assumed"
            elif hop == 0:
                prompt = "unknown" if first_compacts else "counted"
            else:
                prompt = "unknown" if is_compacted else "assumed"
            yield (
                hop,
                self._make(
                    ATTEMPT, model, part.delivered, prompt, leaves_out=part.has_tool_results
                ),
            )

    def _make(
        self,
        kind: str,
        model: str | None,
        delivered: Delivered,
        prompt: _Prompt,
        *,
        leaves_out: bool = False,
    ) -> Pass:
        """Return a pass. ``leaves_out``: it used more tokens, of unknown number."""
        usage, output_tokens = self._usage, estimate_tokens(delivered, self._find_size(model))
        note: CostNote | None = "hidden_thinking" if delivered.hides_thinking else None
        if prompt == "counted":
            output_tokens = max(output_tokens, usage.tokens.output_tokens or 0)
        if prompt == "unknown" or leaves_out:
            note = "uncounted_tokens"
        return Pass(
            type=kind,
            model=model,
            tokens=replace(
                ZERO if prompt == "unknown" else usage.tokens, output_tokens=output_tokens
            ),
            cache_write_1h_tokens=0 if prompt == "unknown" else usage.cache_write_1h_tokens,
            estimates_prompt=prompt == "assumed",
            estimates_output=True,
            note=note,
        )
