"""The latest calls of each conversation, in which the predecessor of a call is searched.

Calls are kept as summaries, the last few of each agent of a session. Programs that send no session
id are distinguished by their credential, and more of their calls are kept, since many conversations
share one. Memory is bounded: the least recently used sessions are forgotten. A call may be stored
after its successor, because entries are stored in the order in which calls end. So the caller of
``add`` asks for the later calls to judge again (``list_successors``)."""

from collections import OrderedDict
from collections.abc import Sequence

from conversations.predecessor import may_precede
from conversations.summaries import CallSummary

MAX_BYTES = 32 * 1024 * 1024
KEPT, KEPT_WITHOUT_SESSION = 16, 64
MAX_AGENTS = 16  # of a session, those that called last

type _Key = tuple[str, str, str | None]
type _Calls = dict[str, CallSummary]  # by entry id, in the order in which they were added
type _Agents = OrderedDict[str | None, _Calls]


class RecentCalls:
    """The latest calls of each session, separately for each owner (organisation)."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.total_bytes = 0
        self._max_bytes = max_bytes
        self._sessions: OrderedDict[_Key, _Agents] = OrderedDict()

    def add(self, owner: str, call: CallSummary) -> None:
        """Keep a call, in place of an earlier one with the same entry id."""
        key = _make_key(owner, call)
        agents = self._sessions.setdefault(key, OrderedDict())
        self._sessions.move_to_end(key)
        calls = agents.setdefault(call.agent_id, {})
        agents.move_to_end(call.agent_id)
        known = calls.pop(call.entry_id, None)
        if known is not None:
            self.total_bytes -= known.memory_bytes
        calls[call.entry_id] = call
        self.total_bytes += call.memory_bytes
        if len(calls) > (KEPT_WITHOUT_SESSION if call.session_id is None else KEPT):
            self.total_bytes -= calls.pop(next(iter(calls))).memory_bytes
        if len(agents) > MAX_AGENTS:
            self._release(agents.popitem(last=False)[1])
        while self.total_bytes > self._max_bytes:
            for forgotten in self._sessions.popitem(last=False)[1].values():
                self._release(forgotten)

    def knows(self, owner: str, call: CallSummary) -> bool:
        """Return whether any call of the same session and agent is kept."""
        return call.agent_id in self._sessions.get(_make_key(owner, call), ())

    def list_candidates(self, owner: str, call: CallSummary) -> list[CallSummary]:
        """Return the kept calls of the same session, of all agents."""
        agents: _Agents = self._sessions.get(_make_key(owner, call), OrderedDict())
        found: list[CallSummary] = []
        for calls in agents.values():
            found += calls.values()
        return found

    def _release(self, calls: _Calls) -> None:
        self.total_bytes -= sum(call.memory_bytes for call in calls.values())


def list_successors(call: CallSummary, candidates: Sequence[CallSummary]) -> list[CallSummary]:
    """Return those candidates that may continue ``call`` and so must be judged again."""
    began_at = call.began_at
    return [
        each
        for each in candidates
        if each.began_at >= began_at and may_precede(call, each)  # nearly none began later
    ]


def _make_key(owner: str, call: CallSummary) -> _Key:
    if call.session_id is not None:
        return owner, "session", call.session_id
    return owner, "credential", call.credential_hmac
