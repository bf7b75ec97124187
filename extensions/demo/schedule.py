"""The requests of the two weeks before: their times, and the times of the replies.

``organization.toml`` says when and how often. The rest is random with a fixed seed, so that all demos
are alike."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import cycle
from random import Random
from typing import Any, NamedTuple

from extensions.demo.calls import Call, Reply
from extensions.demo.events import count_output
from extensions.demo.library import read_table
from extensions.demo.script import Player, Step

SEED = 3
DAY = timedelta(days=1)
LAST = timedelta(minutes=20)  # before now nothing of the history is sent any more


class Sent(NamedTuple):
    """A past request with its time, and the seconds to the first and the last byte of its reply."""

    at: datetime
    call: Call
    attempt: int
    reply: Reply
    first_s: float
    took_s: float


class Past:
    """The requests of the days before a point in time."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._plan: Mapping[str, Any] = read_table("organization")["history"]
        self._player = Player(SEED)
        self._random = Random(SEED)  # noqa: S311 - nothing here is a secret

    def list_sent(self) -> list[Sent]:
        """Return all requests, the oldest first."""
        sent: list[Sent] = []
        for begins_at, name in sorted(self._list_conversations()):
            self._lay_out(self._player.play(name), begins_at, sent)
        sent.sort(key=lambda each: each.at)
        return [each for each in sent if each.at < self._now - LAST]

    def _list_conversations(self) -> Iterator[tuple[datetime, str]]:
        """Yield the start and the name of each conversation."""
        midnight = self._now.replace(hour=0, minute=0, second=0, microsecond=0)
        for habit in self._plan["habits"]:
            names = cycle(habit["conversations"])
            begin, end = (timedelta(hours=hour) for hour in habit["hours"])
            for days in range(self._plan["days"], -1, -1):
                day = midnight - days * DAY
                usual = habit["begin"][day.weekday()]
                for _ in range(round(usual * self._random.uniform(0.8, 1.3))):
                    yield day + self._random.uniform(begin / DAY, end / DAY) * DAY, next(names)

    def _lay_out(self, steps: Iterable[Step], at: datetime, sent: list[Sent]) -> datetime:
        """Add the requests of a conversation that begins at ``at`` to ``sent``. Return when it ends."""
        for step in steps:
            if not isinstance(step, Call):
                at = max(self._lay_out(each, at, sent) for each in step)
                continue
            at += timedelta(seconds=step.pause_s)
            for attempt, reply in enumerate((*self._draw_failures(step), *step.replies)):
                first_s, took_s = self._draw_times(step, reply)
                sent.append(Sent(at, step, attempt, reply, first_s, took_s))
                at += timedelta(seconds=took_s + self._random.uniform(2, 45))
        return at

    def _draw_failures(self, call: Call) -> Iterator[Reply]:
        for name, share in self._plan["fails"].items():
            if self._random.random() < share and call.replies[0].content:
                yield self._player.fail(call.replies[0], name)

    def _draw_times(self, call: Call, reply: Reply) -> tuple[float, float]:
        if reply.error_type is not None:
            failed_s = self._random.uniform(0.2, 0.5)
            return failed_s, failed_s
        first_s = self._random.lognormvariate(-0.2, 0.4)
        usual = self._plan["tokens_per_second"].get(call.body["model"], 60)
        tokens = count_output(reply) * (reply.cut_after or 1)
        return first_s, first_s + tokens / usual * self._random.uniform(0.7, 1.4)
