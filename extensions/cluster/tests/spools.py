"""Calls in a spool, and a receiver of them."""

from pathlib import Path

from extensions.cluster import server
from extensions.cluster.copies import Copy
from extensions.cluster.log import BUCKETS
from extensions.cluster.receiver import Receiver
from store.spool.format import Ending, RequestHead, ResponseHead
from store.spool.writer import SpoolRun

ORGANIZATION = "org-1"


def make_head(entry_id: str, organization_id: str = ORGANIZATION) -> RequestHead:
    return RequestHead(
        entry_id=entry_id,
        created_at="2026-01-01T00:00:00.000Z",
        organization_id=organization_id,
        proxy_endpoint_id="endpoint",
        slug="default",
        metadata_only=False,
        request_bytes=4,
        request_body="whole",
    )


def spool(
    run: SpoolRun, entry_id: str, body: bytes = b"body", organization_id: str = ORGANIZATION
) -> None:
    """Write a call that has ended."""
    file = run.create(make_head(entry_id, organization_id), body)
    file.write_response_head(ResponseHead(status_code=200), 1.0)
    file.write_chunk(body * 100, 2.0)
    file.finish(Ending(outcome="complete", duration_ms=2.0), 2.0)


def names(root: Path) -> list[str]:
    """Return the names of the files of a spool."""
    return sorted(path.name for path in root.glob("*/*~*"))


def make_receiver(
    root: Path, client: server.Client, group: str = "main", node: str | None = None
) -> Receiver:
    """Return the receiver of a node that keeps a copy."""
    return Receiver(root, client, Copy(client, group, node or f"node-{group}"), range(BUCKETS))


def receive(
    root: Path, client: server.Client, group: str = "main", node: str | None = None
) -> Receiver:
    """Receive all that there is, what was delivered before first; return the receiver."""
    receiver = make_receiver(root, client, group, node)
    receiver.run_round()
    while receiver.run_round():
        pass
    return receiver
