"""Tokens of links, sessions and service API keys: only the SHA-256 of their random bits is stored.

It needs no salt, for a value that nobody can guess.
"""

import hashlib
import secrets


def make_token() -> str:
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
