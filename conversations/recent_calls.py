"""The latest calls of each conversation, among which the predecessor of a call is looked for.

Calls are kept as summaries, the last few of each agent of a session. Programs that send no session are
told apart by their credential, and more of their calls are kept, since many conversations share one.
Memory is bounded: sessions that were used least recently are forgotten.

A call may be stored after its successor, because entries are stored in the order in which calls end.
So whoever adds a call asks which later ones to judge again.
"""

from collections import OrderedDict, deque

from conversations.predecessor import may_precede
from conversations.summaries import CallSummary

MAX_BYTES = 32 * 1024 * 1024
KEPT, KEPT_WITHOUT_SESSION = 16, 64
MAX_AGENTS = 16  # of a session, those that called last

type _Key = tuple[str, str, str | None]
type _Agents = OrderedDict[str | None, deque[CallSummary]]


class RecentCalls:
    """Keeps the latest calls of each session, for each of their owners (organisations) apart."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.total_bytes = 0
        self._max_bytes = max_bytes
        self._sessions: OrderedDict[_Key, _Agents] = OrderedDict()

    def add(self, owner: str, call: CallSummary) -> None:
        """Keep a call. One with the same entry id takes the place of the one before."""
        key = _make_key(owner, call)
        agents = self._sessions.setdefault(key, OrderedDict())
        self._sessions.move_to_end(key)
        calls = agents.setdefault(call.agent_id, deque())
        agents.move_to_end(call.agent_id)
        for known in [each for each in calls if each.entry_id == call.entry_id]:
            calls.remove(known)
            self.total_bytes -= known.memory_bytes
        calls.append(call)
        self.total_bytes += call.memory_bytes
        if len(calls) > (KEPT_WITHOUT_SESSION if call.session_id is None else KEPT):
            self.total_bytes -= calls.popleft().memory_bytes
        if len(agents) > MAX_AGENTS:
            self._release(agents.popitem(last=False)[1])
        while self.total_bytes > self._max_bytes:
            for forgotten in self._sessions.popitem(last=False)[1].values():
                self._release(forgotten)

    def knows(self, owner: str, call: CallSummary) -> bool:
        """Return whether any call of the same session and agent is kept."""
        return call.agent_id in self._sessions.get(_make_key(owner, call), ())

    def list_candidates(self, owner: str, call: CallSummary) -> list[CallSummary]:
        """Return the calls of the same session, of all agents."""
        agents: _Agents = self._sessions.get(_make_key(owner, call), OrderedDict())
        return [each for calls in agents.values() for each in calls]

    def list_successors(self, owner: str, call: CallSummary) -> list[CallSummary]:
        """Return the calls that were added already and may continue this one: to be judged again."""
        return [
            each
            for each in self.list_candidates(owner, call)
            if each.began_at >= call.began_at and may_precede(call, each)  # nearly none began later
        ]

    def _release(self, calls: deque[CallSummary]) -> None:
        self.total_bytes -= sum(call.memory_bytes for call in calls)


def _make_key(owner: str, call: CallSummary) -> _Key:
    if call.session_id is not None:
        return owner, "session", call.session_id
    return owner, "credential", call.credential_hmac
