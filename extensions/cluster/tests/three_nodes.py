"""Three nodes of a cluster in this process, each with the work of its role."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import redis

from extensions.cluster.__main__ import Node, Work
from extensions.cluster.log import find_bucket
from extensions.cluster.statements import load_signing_key
from extensions.cluster.tests.spools import spool
from runtime.settings import Settings
from store.control.database import ControlDatabase
from store.spool.writer import SpoolRun
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

ORGANIZATION = "org-1"
BUCKET = find_bucket(ORGANIZATION)
OTHER = next(name for name in map("org-{}".format, range(2, 99)) if find_bucket(name) != BUCKET)


class Cluster:
    """A proxy node, a recorder node and one with people, each as its process is, and a folder beside."""

    def __init__(self, folder: Path, find_url: Callable[[str], str]) -> None:
        """Make the nodes below a folder. ``find_url`` returns the address of the server for a role."""
        self.folder = folder
        self.victim = folder / "victim"
        self.victim.mkdir()
        (self.victim / "file").write_text("here")
        self._nodes: list[Node] = []
        self._works: list[Work] = []
        self.errors: list[str] = []  # of the works
        for role in ("web", "recorder", "proxy"):
            data_dir = folder / role
            data_dir.mkdir()
            if role == "web":
                with ControlDatabase(data_dir / "control.db") as control:
                    control.set_up()
                    load_signing_key(control)
            variables = {
                "TAXIMETER_DATA_DIR": str(data_dir),
                "TAXIMETER_CLUSTER": find_url(role),
                "TAXIMETER_ROLE": role,
                "TAXIMETER_GROUP": "main",
                "TAXIMETER_LISTEN": "127.0.0.1:1",
            }
            node = Node(Settings.from_env(variables))
            self._nodes.append(node)
            self._works += node._find_work()
        self.recorder = folder / "recorder"
        for each in (ORGANIZATION, OTHER):
            with TraceDatabase(trace_path(self.recorder, each)) as traces:
                traces.insert([make_entry(entry_id="0000")])
        self.run = SpoolRun(folder / "proxy" / "outgoing", reserve_bytes=0)
        self.count = 0

    def close(self) -> None:
        self.run.close()
        for node in self._nodes:
            node.close()

    @property
    def node(self) -> str:
        return (self.recorder / "node.id").read_text()

    def turn(self, times: int = 1) -> None:
        """Let all nodes do their work, as ``Node`` does it: what else is raised ends the process."""
        for _ in range(times):
            for work in self._works:
                try:
                    work.run()
                except (redis.RedisError, sqlite3.Error, OSError) as error:
                    self.errors.append(f"{work.name}: {error}")

    def folders(self) -> set[str]:
        """Return what is to stay, with the names of all that is in the data directories."""
        kept = {
            str(path.relative_to(self.folder))
            for path in (*self.victim.rglob("*"), *self.recorder.glob("traces/*/*"))
            if not path.name.endswith(("-wal", "-shm"))
        }
        return kept | {
            str(path.relative_to(self.folder))
            for path in (*self.folder.glob("*"), *self.folder.glob("*/*"))
            if not path.name.endswith(("-wal", "-shm", ".new"))
        }

    def arrives(self, organization_id: str) -> None:
        """Check that a call of an organisation comes from the proxy to the recorder."""
        self.count += 1
        entry_id = f"{self.count:04}"
        spool(self.run, entry_id, organization_id=organization_id)
        for _ in range(20):
            self.turn()
            found = list(self.recorder.glob(f"spool/*/{entry_id}~{organization_id}.done"))
            if found:
                found[0].unlink()
                return
        raise AssertionError(f"{entry_id} of {organization_id} has not arrived")
