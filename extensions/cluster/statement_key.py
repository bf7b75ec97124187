"""The exchange of the public key that checks statements of the node with the pages.

A recorder node keeps the first key that it sees, or the one that its operator gave it, and never
accepts another from the server: anybody with write access there could otherwise sign statements in any
name, and read all calls. A changed key is an error until the operator confirms it, or it is gone."""

import redis

from extensions.cluster import reading, records, server
from extensions.cluster.keys import STATEMENTS_KEY
from extensions.cluster.statements import PAGE_CHECKING_KEY
from store.control.database import ControlDatabase


class ChangedKeyError(redis.RedisError):
    """The server has another key than this node keeps."""


class KeyPublisher:
    """Publishes the key of the node with the pages."""

    def __init__(self, control: ControlDatabase, client: server.Client) -> None:
        self._control, self._client = control, client

    def run_round(self) -> bool:
        """Publish the key if the server has another one; return whether it had.

        Raises redis.RedisError, sqlite3.Error."""
        key = self._control.find_secret(PAGE_CHECKING_KEY)
        if key is None or reading.is_said(self._client, STATEMENTS_KEY, key):
            return False
        self._client.set(STATEMENTS_KEY, key)
        return True


class KeyFollower:
    """Keeps the published key on a recorder node."""

    def __init__(self, control: ControlDatabase, client: server.Client) -> None:
        self._control, self._client = control, client

    def run_round(self) -> bool:
        """Keep the published key if this node has none; return whether it had none.

        Raises ChangedKeyError if the published key differs from this node's, redis.RedisError,
        sqlite3.Error."""
        told = reading.read_value(self._client, STATEMENTS_KEY, records.parse_checking_key)
        kept = self._control.find_secret(PAGE_CHECKING_KEY)
        if told is None or told == kept:
            return False
        if kept is not None:
            raise ChangedKeyError(
                "the server has another key of the node with the pages than this node keeps, and it is not"
                " used. Where that node was made anew, call `taximeter cluster key` there, and here"
                " `taximeter cluster trust` with what it prints; otherwise somebody else writes on the server"
            )
        self._control.put_secret(PAGE_CHECKING_KEY, told)
        return True
