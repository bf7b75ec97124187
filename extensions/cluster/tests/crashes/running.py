"""Starting the cluster that the programme breaks."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from extensions.cluster.tests.crashes.scene import PRESSED, SLUGS, Scene
from extensions.cluster.tests.servers import DOWN_MS, Link, Servers
from tests.live.service import Service
from tests.small_disk import CannotMountError, mounted
from tests.upstream import Upstream

PROXIES = 3
DISK_MB = 400
SETTINGS = {
    "DISK_RESERVE": "100MB",
    "DRAIN_SECONDS": "5",
    "UPSTREAM_TIMEOUT": "connect=5,first_byte=20,idle=20",
}
# Every third call, so that this endpoint is at its limit after half a minute.
PRESSING = (*SLUGS, *[PRESSED] * (len(SLUGS) // 2))


class Site:
    """The place where nodes are started: their folders, and the servers with a link for each node."""

    def __init__(
        self, stack: ExitStack, folder: Path, upstream: Upstream, servers: Servers
    ) -> None:
        self._stack = stack
        self._upstream = upstream
        self.folder = folder
        self.servers = servers
        self.links: dict[Service, Link] = {}

    def start(self, name: str, place: Path | None = None, **settings: str) -> Service:
        """Start a node, which ends with the site."""
        return self._stack.enter_context(self.make(name, place, **settings))

    def make(self, name: str, place: Path | None = None, **settings: str) -> Service:
        """Return a node that is not started, with a link of its own."""
        link = self.servers.link()
        folder = place or self.folder / name
        folder.mkdir(exist_ok=True)
        node = Service(folder, self._upstream.url, CLUSTER=link.url, **SETTINGS, **settings)
        self.links[node] = link
        return node


class Cluster(Scene):
    """A scene with servers and links that can be broken. ``small_disk`` is where the first proxy node is,
    if that is a file system of its own."""

    def __init__(
        self,
        site: Site,
        proxies: Sequence[Service],
        recorders: Sequence[Service],
        upstream: Upstream,
        rate: float,
        lasts_s: float,
        small_disk: Path | None,
    ) -> None:
        super().__init__(proxies, recorders, upstream, rate, lasts_s, slugs=PRESSING)
        self.site = site
        self.small_disk = small_disk

    @property
    def servers(self) -> Servers:
        return self.site.servers


@contextmanager
def open_cluster(folder: Path, rate: float, lasts_s: float) -> Iterator[Cluster]:
    """Start everything, with the load paused."""
    with ExitStack() as stack:
        (folder / "redis").mkdir()
        servers = stack.enter_context(Servers(folder / "redis", DOWN_MS))
        upstream = stack.enter_context(Upstream())
        site = Site(stack, folder, upstream, servers)
        small_disk = None
        (folder / "disk").mkdir()
        try:
            small_disk = stack.enter_context(mounted(folder / "disk", DISK_MB))
        except CannotMountError as error:
            print(f"left out what needs a small disk: {error}")
        recorders = [
            site.start("main", ROLE="recorder,web"),
            site.start("copy", ROLE="recorder", GROUP="copy"),
        ]
        proxies = [
            site.start(f"proxy-{number}", None if number else small_disk, ROLE="proxy")
            for number in range(PROXIES)
        ]
        with Cluster(site, proxies, recorders, upstream, rate, lasts_s, small_disk) as cluster:
            yield cluster
