"""Statements of the caller of a request, which the node with the pages signs and others check.

A statement is for one request to one node, and valid for half a minute. It is signed by a key that
never leaves ``control.db`` of the node with the pages. The public key that checks it is on the Redis
server, and nodes with calls keep the first one that they see there, or the one that their operator
gave them. So nobody else can make a statement, neither with read access to that server or a proxy
node, nor with write access there, unless a node with calls was new and had no key yet."""

import base64
from dataclasses import asdict, dataclass
from typing import Any, Self

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from runtime.errors import ConflictError, InvalidInputError
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.control.sessions import Visitor

HEADER = "x-taximeter-statement"
# Secrets in ``control.db`` by which nodes know who asks for a page: the first never leaves its node.
PAGE_SIGNING_KEY, PAGE_CHECKING_KEY = "signing of pages", "checking of pages"
VALID_S = 30.0
_PURPOSE = b"taximeter page 1\0"


class StatementError(Exception):
    """A request has no valid statement. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The statement of the caller of a request: the request, its node and its time (seconds since 1970).

    ``is_copy``: the node has another copy of the calls than the first."""

    caller: Caller
    node: str
    method: str
    target: str
    at_s: float
    is_copy: bool

    def sign(self, key: Ed25519PrivateKey) -> str:
        """Return the signed statement as the value of a header."""
        body = orjson.dumps(asdict(self) | {"is_visitor": isinstance(self.caller, Visitor)})
        return f"{_encode(body)}.{_encode(key.sign(_PURPOSE + body))}"

    @classmethod
    def check(cls, text: str, key: Ed25519PublicKey, *, now_s: float) -> Self:
        """Return the statement in a header if it is recent and its signature valid. Raises StatementError."""
        try:
            body, signature = (_decode(part) for part in text.split("."))
            key.verify(signature, _PURPOSE + body)
            found: dict[str, Any] = orjson.loads(body)
            kind = Visitor if found.pop("is_visitor") else Caller
            statement = cls(**(found | {"caller": kind(**found["caller"])}))
        except (InvalidSignature, ValueError, TypeError, KeyError) as error:
            raise StatementError(
                "the statement of who asks is not signed by this cluster"
            ) from error
        if abs(now_s - statement.at_s) > VALID_S:
            raise StatementError(
                f"the statement of who asks is {now_s - statement.at_s:.0f} s old: it is valid for"
                f" {VALID_S:.0f} s, and the clocks of the nodes may differ by less than that"
            )
        return statement


def load_signing_key(control: ControlDatabase) -> Ed25519PrivateKey:
    """Return the key with which this node signs, made if there is none; then store the public key, too.

    Raises sqlite3.Error."""
    key = Ed25519PrivateKey.from_private_bytes(control.get_secret(PAGE_SIGNING_KEY))
    control.put_secret(PAGE_CHECKING_KEY, key.public_key().public_bytes_raw())
    return key


def load_checking_key(control: ControlDatabase) -> Ed25519PublicKey:
    """Return the public key that this node keeps. Raises StatementError if there is none, sqlite3.Error."""
    found = control.find_secret(PAGE_CHECKING_KEY)
    if found is None:
        raise StatementError("this node was not told yet by which key the node with people signs")
    return Ed25519PublicKey.from_public_bytes(found)


def trust(control: ControlDatabase, text: str) -> None:
    """Keep a public key, given in hexadecimal digits, as the one that checks statements here.

    Raises InvalidInputError for other text, ConflictError on the node that signs, sqlite3.Error."""
    if control.find_secret(PAGE_SIGNING_KEY) is not None:
        raise ConflictError("this node has a key of its own to sign with: it checks no statements")
    try:
        key = bytes.fromhex(text)
        Ed25519PublicKey.from_public_bytes(key)
    except ValueError as error:
        raise InvalidInputError(
            "a key has 64 hexadecimal digits: `taximeter cluster key` prints it on the node with the pages"
        ) from error
    control.put_secret(PAGE_CHECKING_KEY, key)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
