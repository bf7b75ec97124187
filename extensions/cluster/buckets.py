"""The buckets of organisations: each is in one, and its calls are kept where its bucket is."""

import hashlib
from pathlib import Path

from store.traces.paths import traces_folder

BUCKETS = 64


def find_bucket(organization_id: str) -> int:
    """Return the bucket of an organisation. It must never change: its database is where its bucket is."""
    digest = hashlib.blake2b(organization_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS


def find_bucket_folders(data_dir: Path, bucket: int) -> list[Path]:
    """Return the folders of the organisations of a bucket that have traces."""
    return sorted(
        folder for folder in traces_folder(data_dir).glob("*") if find_bucket(folder.name) == bucket
    )
