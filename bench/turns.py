"""Programs that are measured in turns, so that other load on the machine affects all of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.load import BenchError, Proxy
from bench.peers import Installed, check_response, running_peer
from bench.traffic import Kind


class Programs:
    """Our own programs, which have to work, and peers, which are left out after a failure.

    ``running`` has the programs that are still measured, ``failures`` the reason for each that is not,
    and ``notes`` how the responses of the others differ from upstream's."""

    def __init__(self, own: Mapping[str, Proxy]) -> None:
        self._own = own
        self.running = dict(own)
        self.notes: dict[str, str] = {}
        self.failures: dict[str, str] = {}

    def start_peers(
        self,
        stack: ExitStack,
        peers: Sequence[Installed],
        folder: Path,
        direct: Proxy,
        kind: Kind = "small",
        query: str = "",
    ) -> None:
        """Start the peers, to be ended with ``stack``, and compare a response of each with upstream's."""
        for peer in peers:
            try:
                proxy = stack.enter_context(running_peer(peer, folder, direct.port))
                self.notes[peer.name] = check_response(proxy, direct, kind, query)
                self.running[peer.name] = proxy
            except BenchError as error:
                self.failures[peer.name] = str(error)

    def take_turns(self, number: int, measure: Callable[[str, Proxy], None]) -> None:
        """Measure each program in the order for round ``number``. Raises BenchError if one of ours fails."""
        for name, proxy in rotate(list(self.running.items()), number):
            try:
                measure(name, proxy)
            except BenchError as error:
                if name in self._own:
                    raise
                self.failures[name] = str(error)
                del self.running[name]


def rotate[Item](items: Sequence[Item], number: int) -> list[Item]:
    """Return the items in the order for round ``number``.

    The first item changes every two rounds, and odd rounds are in reverse order."""
    start = number // 2 % len(items)
    turned = [*items[start:], *items[:start]]
    return turned[::-1] if number % 2 else turned
