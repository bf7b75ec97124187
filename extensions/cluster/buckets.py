"""The buckets of organisations: each organisation is in one, and the node that keeps a bucket has its
calls."""

import hashlib
from pathlib import Path

from store.traces.paths import traces_folder

BUCKETS = 64


def find_bucket(organization_id: str) -> int:
    """Return the bucket of an organisation. The result must never change, since nodes keep whole buckets."""
    digest = hashlib.blake2b(organization_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS


def find_bucket_folders(data_dir: Path, bucket: int) -> list[Path]:
    """Return the folders with traces of the organisations in a bucket."""
    return sorted(
        folder for folder in traces_folder(data_dir).glob("*") if find_bucket(folder.name) == bucket
    )
