"""The cases whose faults are of the processes of nodes."""

import json
import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import psutil

from extensions.cluster.tests.crashes.running import Cluster
from extensions.cluster.tests.crashes.scene import PATIENCE_S, Case, Scene, list_unshipped
from tests.live import command
from tests.live.service import Child, Endpoint, Service
from tests.rawclient import Cut
from tests.small_disk import FILLING
from tests.store.stored_words import find_word
from tests.upstream import wait_until

KILL, TERM = signal.SIGKILL, signal.SIGTERM
WORD = "quokkaplonkify"
MESSAGE = b'{"model": "haiku", "messages": [{"role": "user", "content": "%s"}]}' % WORD.encode()
RESERVE_LEFT = 50 << 20  # of a reserve of 100 MB


# --- processes that end or stand still ------------------------------------------------------------


def end_proxies(scene: Scene, number: signal.Signals = KILL) -> None:
    """End the proxy process of each node. Only calls on its connections may notice."""
    for node in scene.proxies:
        scene.end_worker(node, number)
        node.wait_healthy()


def _end(name: Child, number: signal.Signals) -> Callable[[Scene], None]:
    def do(scene: Scene) -> None:
        for node in scene.nodes:
            if name in node.pids():
                scene.end_child(node, name, number)

    return do


end_cluster_processes = _end("cluster", KILL)
end_recorders = _end("recorder", KILL)


def _restart(number: signal.Signals, *, all_at_once: bool = False) -> Callable[[Scene], None]:
    def do(scene: Scene) -> None:
        for node in scene.nodes:
            scene.restart(node, number, all_at_once=all_at_once)

    return do


def _stop(name: Child) -> Callable[[Scene], None]:
    """Stop a process of each node in turn, which then does not know how much time has passed."""

    def do(scene: Scene) -> None:
        for node in scene.nodes:
            if name not in node.pids():
                continue
            process = psutil.Process(node.pids()[name])
            process.suspend()
            try:
                scene.last()
            finally:
                process.resume()

    return do


# --- nodes that come and go -----------------------------------------------------------------------


def _add_and_remove_a_proxy(cluster: Cluster) -> None:
    """Let calls go to a new proxy node as soon as it says that it lives, and then to it no more."""
    node = cluster.site.make(f"added-{cluster.turn}", ROLE="proxy")
    with node:
        wait_until(lambda: _is_live(node), "a node that lives")
        cluster.proxies.append(node)
        cluster.serving.append(node)
        cluster.away.nodes += 1
        cluster.load.wait_for(60)
        cluster.serving.remove(node)
        begun = cluster.load.begun
        wait_until(lambda: cluster.has_been_seen_until(begun), "the last calls for the node")
        if (code := node.terminate()) != 0:
            raise AssertionError(f"the node ended with {code}\n{node.output}")
        if left := list_unshipped(node):
            raise AssertionError(f"the node has not shipped {left}")
        cluster.proxies.remove(node)


def _is_live(node: Service) -> bool:
    try:
        return node.get("/livez").status == 200
    except (OSError, Cut):
        return False


def _add_and_remove_a_recorder(cluster: Cluster) -> None:
    """Let another node share a copy. Calls stay where those of their organisation are."""
    node = cluster.site.make(f"sharing-{cluster.turn}", ROLE="recorder", GROUP="copy")
    with node:
        cluster.last()
        node.terminate()


def _kill_all(node: Service) -> None:
    """Kill all processes of a node, and wait for their ends."""
    root = psutil.Process(node.pid)
    children = root.children(recursive=True)
    for process in (root, *children):
        process.kill()
    node.wait()
    psutil.wait_procs(children)


def _rebuild_the_copy(cluster: Cluster) -> None:
    """Lose a recorder node with its disk, and make another from the backup of the other copy, which has
    not received all that the lost one had."""
    home, lost = cluster.recorders
    link = cluster.site.links[home]
    link.do(lambda relay: relay.stall())
    cluster.load.wait_for(20)
    _kill_all(lost)
    shutil.rmtree(lost.data_dir)
    backup = cluster.site.folder / f"backup-{cluster.turn}"
    environ = home.environment | command.environment(home)
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(command.call, ("backup", str(backup)), environ)
        cluster.last()
        link.do(lambda relay: relay.mend())
    words = ("restore", str(backup), "--data-dir", str(lost.data_dir))
    for done in (made.result(), command.call(words, environ)):
        if done.returncode != 0:
            raise AssertionError(f"{done.args} ended with {done.returncode}: {done.stderr}")
    cluster.load.wait_for(20)
    lost.start()
    shutil.rmtree(backup)


def _kill_between_order_and_erasing(cluster: Cluster) -> None:
    """Kill a recorder node once calls are ordered to be erased that it has, and while another one ships
    calls of before the order late. They are gone from both copies when it is back."""
    slug = f"erased-{cluster.turn}"
    home, copy = cluster.recorders
    proxy, late = cluster.proxies[0], cluster.proxies[1]
    home.create_endpoint(slug)
    for node in (proxy, late):
        cluster.wait_for_slugs(node)
    link = cluster.site.links[late]
    link.do(lambda relay: relay.cut())
    try:
        for node in (proxy, late):
            endpoint = Endpoint(node, cluster.upstream, slug)
            endpoint.send(endpoint.message(MESSAGE))
        for node in (home, copy):
            node.wait_for_rows(1, slug)
        _kill_all(copy)
        done = command.call(("erase", "--endpoint", slug, "--yes"), command.environment(home))
        if done.returncode != 0:
            raise AssertionError(f"the erasing ended with {done.returncode}: {done.stderr}")
        cluster.last()
        copy.start()
    finally:
        link.do(lambda relay: relay.mend())

    def is_erased() -> bool:
        found = json.loads(
            command.call(("erase", "--status", "--json"), command.environment(home)).stdout
        )["items"][-1]["copies"]
        return [each["entries"] for each in found] == [2, 2]

    wait_until(is_erased, "the erasing in both copies", patience_s=PATIENCE_S)
    for node in (home, copy):
        if found := find_word(node.data_dir, WORD):
            raise AssertionError(f"erased text is left: {found}")


# --- the disk of a node ---------------------------------------------------------------------------


def _reach_the_reserve(cluster: Cluster) -> None:
    """Let the disk of a proxy node be nearly full while it cannot ship. Bodies are not kept then."""
    node, folder = cluster.proxies[0], cluster.small_disk
    if folder is None:
        return
    link, filler = cluster.site.links[node], folder / "filler"
    link.do(lambda relay: relay.cut())
    try:
        with filler.open("wb") as file:
            while shutil.disk_usage(folder).free > RESERVE_LEFT:
                file.write(FILLING)
        cluster.last()
    finally:
        filler.unlink()
        link.do(lambda relay: relay.mend())


NODE_CASES: Sequence[Case[Cluster]] = (
    Case("nothing, to compare with", Scene.last),
    Case("kill -9 of each proxy", end_proxies),
    Case("kill -9 of each cluster process", end_cluster_processes),
    Case("kill -9 of each recorder", end_recorders),
    Case("kill -9 of each supervisor", _restart(KILL)),
    Case("kill -9 of each node", _restart(KILL, all_at_once=True)),
    Case("TERM to each cluster process", _end("cluster", TERM)),
    Case("TERM to each node", _restart(TERM)),
    Case("each cluster process stands still", _stop("cluster")),
    Case("each recorder stands still", _stop("recorder")),
    Case("a proxy node added and removed", _add_and_remove_a_proxy),
    Case("a second node of a group", _add_and_remove_a_recorder),
    Case("a recorder node rebuilt", _rebuild_the_copy),
    Case(
        "kill -9 of a node between order and erasing", _kill_between_order_and_erasing, is_away=True
    ),
    Case("disk reserve of a proxy node", _reach_the_reserve, is_away=True, may_miss_bytes=True),
)
