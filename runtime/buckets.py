"""The buckets of organisations: each is in one, and a cluster keeps its calls where its bucket is."""

import hashlib

BUCKETS = 64


def find_bucket(organization_id: str) -> int:
    """Return the bucket of an organisation. It must never change: its database is where its bucket is."""
    digest = hashlib.blake2b(organization_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % BUCKETS
