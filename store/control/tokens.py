"""Tokens of links, sessions and service API keys, stored only as SHA-256.

The digest needs no salt, since the tokens are random bits that nobody can guess."""

import hashlib
import secrets


def make_token() -> str:
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
