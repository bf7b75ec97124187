"""The comparison of what upstream saw, what clients heard, and the rows that there are.

It is a function of values alone, so that it can be tried on faults that are planted.
"""

import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.faults.traffic import Plan, make_plan

type Row = Mapping[str, Any]
NOT_SENT = frozenset({"upstream_unreachable", "upstream_timeout"})
UNDISTURBED = frozenset({"complete", "upstream_error"})


@dataclass(slots=True)
class Attempt:
    """One request of a client: the local port of its connection, and what came back."""

    port: int | None
    begun_s: float
    ended_s: float = 0.0
    status: int | None = None
    body: bytearray = field(default_factory=bytearray)  # it grows in place, to megabytes
    is_whole: bool = False


@dataclass(slots=True)
class Call:
    """A call of the load, with its attempts."""

    number: int
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it was at the upstream. ``spoiled`` are the bytes of the body that upstream sent where
    it did not send what the plan says, and None where it did."""

    number: int
    body: bytes
    is_whole: bool
    spoiled: bytes | None = None


@dataclass(slots=True)
class Verdict:
    """The faults of a case. ``wrong`` are sentences; the others are numbers of calls, of which ``details``
    says what upstream, the client and the rows have of each."""

    calls: int = 0
    rows: int = 0
    not_kept: int = 0
    excused: int = 0
    lost: list[int] = field(default_factory=list)
    double: list[int] = field(default_factory=list)
    disturbed: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    details: dict[int, str] = field(default_factory=dict)
    times_s: list[float] = field(default_factory=list)
    """The time of each plain call that nothing disturbed."""

    def note_not_kept(self, counted: int) -> None:
        """Take those off the lost calls of which the service said that it could not keep them. Of some of
        those that it counted, upstream may have seen nothing."""
        if len(self.lost) <= counted:
            for number in set(self.lost).difference(self.double, self.disturbed):
                del self.details[number]
            self.not_kept, self.lost = len(self.lost), []

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.double or self.wrong or self.disturbed)


def number_of(target: str) -> int:
    """Return the number of a call, which is in its query."""
    return int(parse_qs(urlsplit(target).query)["n"][0])


def is_numbered(target: str) -> bool:
    """Return whether a request is one of the load."""
    return "n" in parse_qs(urlsplit(target).query)


def judge(
    seen: Sequence[Seen],
    calls: Sequence[Call],
    rows: Sequence[Row],
    is_excused: Callable[[Call], bool],
    *,
    may_miss_bytes: bool = False,
) -> Verdict:
    """Return what is wrong. ``is_excused`` tells of a call whether the fault may have disturbed it."""
    found = Verdict(calls=len(calls), rows=len(rows))
    seen_by, rows_by = defaultdict[int, list[Seen]](list), defaultdict[int, list[Row]](list)
    for request in seen:
        seen_by[request.number].append(request)
    for row in rows:
        rows_by[row["max_tokens"] - 1].append(row)
    for call in calls:
        mine, its_rows = seen_by.pop(call.number, []), rows_by.pop(call.number, [])
        excused = is_excused(call)
        _count(found, call, mine, its_rows, excused)
        for row in its_rows:
            found.wrong += _find_wrong(make_plan(call.number), call, mine, row, may_miss_bytes)
        _judge_client(found, call, mine, excused)
        if call.number in (*found.lost, *found.double, *found.disturbed):
            found.details[call.number] = _describe(call, mine, its_rows, excused)
    for number in (*seen_by, *rows_by):
        found.wrong.append(f"call {number} was made by nobody")
    return found


def list_times(calls: Sequence[Call]) -> list[float]:
    """Return the seconds that each plain call took which had its whole response at the first attempt."""
    plans = [(make_plan(call.number), call) for call in calls]
    return [
        call.last.ended_s - call.last.begun_s
        for plan, call in plans
        if plan.kind != "held"
        and len(call.attempts) == 1
        and call.last.is_whole
        and call.last.status == plan.status
    ]


def _count(
    found: Verdict, call: Call, seen: Sequence[Seen], rows: Sequence[Row], is_excused: bool
) -> None:
    """Compare numbers: a row for each request that upstream saw, and none besides but for those that
    were kept and then perhaps not sent.

    An excused call may also have been sent on a connection that upstream has never accepted: those that
    wait when it stops listening are reset."""
    may_be_unseen = NOT_SENT | {"proxy_restarted"}
    if is_excused:
        may_be_unseen |= {"upstream_interrupted"}
    unsent = [row for row in rows if row["status_code"] is None and row["outcome"] in may_be_unseen]
    if len(rows) < len(seen):
        found.lost.append(call.number)
    if len(rows) - len(unsent) > len(seen) or len(rows) > len(call.attempts):
        found.double.append(call.number)
    entry_ids = Counter(row["entry_id"] for row in rows)
    if entry_ids and max(entry_ids.values()) > 1:
        found.double.append(call.number)


def _describe(call: Call, seen: Sequence[Seen], rows: Sequence[Row], is_excused: bool) -> str:
    kept = [f"{row['entry_id']} {row['outcome']} {row['status_code']}" for row in rows]
    heard = [f"{each.status}{'' if each.is_whole else ' cut'}" for each in call.attempts]
    excused = " (excused)" if is_excused else ""
    return (
        f"call {call.number} ({make_plan(call.number).kind}){excused}: its client heard {heard},"
        f" upstream saw {len(seen)}, the rows are {kept}"
    )


def _find_wrong(
    plan: Plan, call: Call, seen: Sequence[Seen], row: Row, may_miss_bytes: bool
) -> list[str]:
    found = []
    if any(request.is_whole and request.body != plan.request for request in seen):
        found.append("another request reached the upstream")
    stored, sent = _to_bytes(row["request_body"]), _to_bytes(row["response_body"])
    is_dropped = may_miss_bytes and row["body_notes"] is not None
    if stored != plan.request and not (is_dropped and stored is None):
        found.append("its request is not what was sent")
    spoiled = next((each.spoiled for each in seen if each.spoiled is not None), None)
    if not (is_dropped and sent is None):
        found += _compare_responses(plan, call, row, sent or b"", spoiled, may_miss_bytes)
    if row["outcome"] in UNDISTURBED and spoiled is None:
        found += _compare_results(plan, row)
    return [f"call {plan.number} ({plan.kind}, {row['outcome']}): {each}" for each in found]


def _compare_responses(
    plan: Plan, call: Call, row: Row, stored: bytes, spoiled: bytes | None, may_miss_bytes: bool
) -> list[str]:
    # A client that tried again may have had the planned response in the end.
    expected = (plan.response,) if spoiled is None else (spoiled, plan.response)
    if row["outcome"] in UNDISTURBED and spoiled is None:
        return [] if stored in expected else ["its response is not what upstream sent"]
    found = []
    if not any(each.startswith(stored) for each in expected):
        found.append("its response is not the beginning of upstream's")
    is_comparable = (
        len(call.attempts) == 1
        and plan.kind != "gzip"
        and row["status_code"] == call.last.status
        and not may_miss_bytes
    )
    if is_comparable and not stored.startswith(call.last.body):
        # Each chunk is kept before it is passed on.
        found.append("its client heard more than is stored")
    return found


def _compare_results(plan: Plan, row: Row) -> list[str]:
    found = []
    if row["status_code"] != plan.status:
        found.append(f"its status is {row['status_code']}")
    if row["cost_cents"] is None or abs(row["cost_cents"] - plan.cents) > 1e-9:
        found.append(f"its cost is {row['cost_cents']}, not {plan.cents}")
    return found


def _judge_client(found: Verdict, call: Call, seen: Sequence[Seen], is_excused: bool) -> None:
    plan, last = make_plan(call.number), call.last
    if any(each.spoiled is not None for each in seen):
        return
    if last.is_whole and last.status == plan.status:
        body = gzip.decompress(last.body) if plan.kind == "gzip" else last.body
        if body != plan.response:
            found.wrong.append(f"call {plan.number}: its client heard something else")
        elif len(call.attempts) == 1 and plan.kind != "held" and not is_excused:
            found.times_s.append(last.ended_s - last.begun_s)
    elif is_excused:
        found.excused += 1
    else:
        found.disturbed.append(call.number)


def _to_bytes(stored: str | bytes | None) -> bytes | None:
    return stored.encode() if isinstance(stored, str) else stored
