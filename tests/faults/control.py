"""The same load on a service that nothing is done to, at the same time.

What its clients wait for is the machine and the programme itself; what those of the other service wait
longer is due to the fault.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.load import Load
from tests.faults.oracle import list_times
from tests.live.service import Service
from tests.upstream import Upstream

SLUGS = 16


class Control:
    """A service with a load that is paused but for the time of a case."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def resume(self) -> None:
        """Begin to call."""
        self._load.resume()

    def pause(self) -> list[float]:
        """Call no more; return how many seconds each plain call took."""
        self._load.pause()
        return list_times(self._load.calls)


@contextmanager
def open_control(folder: Path, rate: float, **settings: str) -> Iterator[Control]:
    """Start the service, and its load, paused."""
    folder.mkdir()
    with Upstream() as upstream, Service(folder, upstream.url, **settings) as service:
        slugs = [f"control-{number}" for number in range(SLUGS)]
        for slug in slugs:
            service.create_endpoint(slug)
        with Load(lambda _: service.address, upstream, slugs, rate) as load:
            load.wait_for(1)
            load.pause()
            yield Control(load)
