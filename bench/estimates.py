"""The error of the estimates for cut streams, over recorded exchanges.

Each recorded stream is cut at random places, the same in each run, and its output is estimated from
the other complete responses of its model, and from the constants alone. No response says how many
tokens a part of it has, so the exact total is distributed by characters: the error is that of the
characters per token. The column "whole" needs no distribution: it compares the exact total with an
estimate for the whole response.

python -m bench.estimates"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from metering.cut_streams import estimate_usage
from metering.delivered import UNKNOWN_SIZE, Delivered, OutputSize, measure
from metering.output_estimate import END_CHARACTERS, measure_output
from metering.usage import Usage, read_usage
from tests.recorded import CASES, RECORDED

CUTS, SEED = 20, 1
# Made by hand for tests of other projects: their counts are not of their text.
MADE_UP = ("vercel_dup_message_start", "vercel_fallback_stream", "vercel_spliced_message_start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A recorded response with a token count by upstream."""

    name: str
    body: bytes
    usage: Usage
    size: OutputSize | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """The relative errors of the estimates for one stream, one for each cut.

    ``others`` is the number of responses from whose sizes they were made."""

    name: str
    model: str
    output_tokens: int
    others: int
    hides_thinking: bool
    by_others: tuple[float, ...]
    by_constant: tuple[float, ...]
    whole: float


def load_exchanges() -> list[Exchange]:
    """Return the complete recorded responses whose output upstream has counted."""
    exchanges = []
    for name, case in CASES.items():
        body = (RECORDED / case["response_file"]).read_bytes()
        usage = read_usage(case["status"], case["content_type"], body, is_complete=True)
        if name not in MADE_UP and usage.source == "final" and usage.tokens.output_tokens:
            size = measure_output(usage, body)
            exchanges.append(Exchange(name=name, body=body, usage=usage, size=size))
    return exchanges


def measure_errors(exchanges: Sequence[Exchange]) -> Iterator[Errors]:
    """Yield the errors of each stream."""
    for each in exchanges:
        if each.usage.is_document:
            continue
        others = [
            other.size
            for other in exchanges
            if other is not each and other.usage.model == each.usage.model and other.size
        ]
        cuts = list(_cut(each))
        size = add_up(others)
        yield Errors(
            name=each.name,
            model=each.usage.model or "",
            output_tokens=each.usage.tokens.output_tokens or 0,
            others=len(others),
            hides_thinking=measure(each.body).hides_thinking,
            by_others=tuple(_find_error(each, cut, size) for cut in cuts),
            by_constant=tuple(_find_error(each, cut, UNKNOWN_SIZE) for cut in cuts),
            whole=_find_error(each, each.body[: _find_end(each)], size),
        )


def add_up(sizes: Sequence[OutputSize]) -> OutputSize:
    """Return the sum of the sizes of several responses."""
    return sum(sizes, UNKNOWN_SIZE)


def _cut(exchange: Exchange) -> Iterator[bytes]:
    """Yield beginnings of a stream that end after its first content and before its final counts."""
    places = random.Random(f"{SEED} {exchange.name}")  # noqa: S311 - the same cuts in each run
    start = exchange.body.index(b"content_block_start")
    end = _find_end(exchange)
    for _ in range(CUTS):
        yield exchange.body[: places.randint(start, end)]


def _find_end(exchange: Exchange) -> int:
    """Return the offset in bytes at which the final counts begin."""
    return exchange.body.rindex(b"message_delta")


def _find_error(exchange: Exchange, beginning: bytes, size: OutputSize) -> float:
    exact = exchange.usage.tokens.output_tokens or 0
    share = _weigh(measure(beginning)) / (_weigh(measure(exchange.body)) + END_CHARACTERS)
    cut = read_usage(200, "text/event-stream", beginning, is_complete=False)
    found = estimate_usage(cut, beginning, lambda _: size)
    # Where there are several passes, the count in the first event is not of the one that served.
    counted = (cut.tokens.output_tokens or 0) if len(found.passes) == 1 else 0
    truth = max(exact * share, counted)
    return abs((found.tokens.output_tokens or 0) - truth) / max(truth, 1)


def _weigh(delivered: Delivered) -> float:
    return delivered.characters + delivered.thinking_characters


def main() -> None:
    """Print the errors of each stream, and their medians."""
    found = list(measure_errors(load_exchanges()))
    print(
        f"{'stream':32} {'model':28} {'tokens':>6} {'others':>6} {'error':>6} {'constant':>8} {'whole':>6}"
    )
    for each in found:
        print(
            f"{each.name:32} {each.model:28} {each.output_tokens:6} {each.others:6}"
            f" {median(each.by_others):6.1%} {median(each.by_constant):8.1%} {each.whole:6.1%}"
            f"{'  hides thinking' if each.hides_thinking else ''}"
        )
    known = [each for each in found if each.others]
    print(f"\nStreams of models with other responses: {len(known)}, each cut {CUTS} times")
    print(
        f"median error by the other responses: {find_median(each.by_others for each in known):.1%}"
    )
    print(
        f"median error by the constants alone: {find_median(each.by_constant for each in known):.1%}"
    )
    print(f"median error of their whole output: {median(each.whole for each in known):.1%}")
    shown = [each for each in known if not each.hides_thinking]
    print(
        f"without those that hide thinking:    {find_median(each.by_others for each in shown):.1%}"
    )
    print(
        f"all {len(found)} streams by the constants:   {find_median(each.by_constant for each in found):.1%}"
    )


def find_median(errors: Iterable[Sequence[float]]) -> float:
    """Return the median error of all cuts of some streams."""
    return median(chain.from_iterable(errors))


if __name__ == "__main__":
    main()
