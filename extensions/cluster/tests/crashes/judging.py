"""The comparison of both copies, and of limits over all nodes."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.faults.oracle import UNDISTURBED, Row, Verdict

type Span = tuple[float, float]

COMPARED = (
    *("entry_id", "outcome", "status_code", "cost_cents"),
    *("request_body", "response_body", "body_notes"),
)
LIMIT = 300
# A minute of the server, less what may pass between an admission and its arrival at the upstream.
WINDOW_S = 58.0
MINUTE_S = 60.0


@dataclass(slots=True)
class Away:
    """The spans of time in which a node may have been without Redis, or Redis without its last second."""

    nodes: int
    spans: list[Span] = field(default_factory=list)

    def find_limit(self, begins_s: float, ends_s: float) -> int:
        """Return how many requests may be seen in a minute: each node limits by itself, and goes on so
        until what Redis does not know of is a minute old."""
        is_away = any(begins_s <= end + MINUTE_S and ends_s >= begin for begin, end in self.spans)
        return LIMIT * self.nodes if is_away else LIMIT


def find_differences(first: Iterable[Row], second: Iterable[Row]) -> list[str]:
    """Return in which entries two copies differ."""
    ours, theirs = _by_entry(first), _by_entry(second)
    found = [f"{entry} is in one copy only" for entry in sorted(ours.keys() ^ theirs.keys())]
    for entry in sorted(ours.keys() & theirs.keys()):
        names = [name for name in COMPARED if ours[entry][name] != theirs[entry][name]]
        if ours[entry]["outcome"] not in UNDISTURBED:
            # Of a response that was cut, each copy estimates it by the calls that it had before.
            names = [name for name in names if name != "cost_cents"]
        if names:
            found.append(f"{entry} differs in {', '.join(names)}")
    return found


def find_excess(times_s: Sequence[float], away: Away) -> int:
    """Return by how many requests the limit was exceeded in the worst minute. ``times_s`` are the
    instants, in order, at which the upstream saw the requests of an endpoint."""
    worst = 0
    for last, ends_s in enumerate(times_s):
        first = bisect_left(times_s, ends_s - WINDOW_S)
        count = last - first + 1
        if count > LIMIT:
            worst = max(worst, count - away.find_limit(times_s[first], ends_s))
    return worst


def join(verdicts: Sequence[Verdict]) -> Verdict:
    """Return what is wrong in any copy."""
    joined = verdicts[0]
    for verdict in verdicts[1:]:
        joined.lost = sorted({*joined.lost, *verdict.lost})
        joined.double = sorted({*joined.double, *verdict.double})
        joined.details |= verdict.details
        joined.wrong = list(dict.fromkeys([*joined.wrong, *verdict.wrong]))
    return joined


def _by_entry(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["entry_id"]: row for row in rows}
