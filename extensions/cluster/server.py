"""The Redis or Valkey server of a cluster, and detecting which server responds.

The options follow from these facts about redis-py: by default it retries a command ten times with
pauses, so that a call to a dead server returns after seconds; and it would send a pipeline twice
unnoticed. Here a command fails at once, and the caller decides. With version 3 of the protocol, its
default, it listens for announcements of maintenance on each connection, and therefore hands out
connections that the server has closed; with version 2 it checks a connection first."""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

CONNECT_S, READ_S = 1.0, 5.0
QUICK_S = 0.3
ASK_S = 1.0
SENTINEL_PORT = 26379
# Of a machine that is gone without a word a connection is closed some eight seconds after its last use.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}

# redis-py types a result as one of a synchronous or an asynchronous client, which says nothing.
type Client = Any


@dataclass(frozen=True, slots=True)
class Identity:
    """The server that responds, and its replication history.

    A server that was restarted, replaced another one, or was a replica meanwhile may lack data that
    was acknowledged before. A primary also gets another history when its first replica comes, or an
    hour after its last one left: that counts as a change too, which only repeats some work."""

    run_id: str
    role: str
    history: str


def connect(url: str) -> Client:
    """Return a client of a server, or of the primary that Sentinels name. Raises ValueError.

    The client connects at its first command. Replies are bytes. URLs begin with ``redis://``,
    ``rediss://`` (TLS) or ``redis+sentinel://``. Sentinels are given with the name of their service as
    path: ``redis+sentinel://user:password@host:26379,host:26379/main?tls=true``, where user, password
    and TLS are for Sentinels and servers. ``ssl_ca_certs=FILE`` in the query names an authority to
    trust."""
    options = _options(CONNECT_S, READ_S, Retry(NoBackoff(), 0))
    options["redis_connect_func"] = _Connections()
    return _connect(url, redis.Redis, Sentinel, options)


def connect_async(url: str) -> Client:
    """Return a client for an event loop, with timeouts so short that no call waits for the server."""
    options = _options(QUICK_S, QUICK_S, AsyncRetry(NoBackoff(), 0))
    return _connect(url, redis.asyncio.Redis, AsyncSentinel, options)


def close(client: Client) -> None:
    """Close the connections of a client of ``connect``, also those to Sentinels."""
    client.close()
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    for each in manager.sentinels if manager is not None else ():
        each.close()


async def close_async(client: Client) -> None:
    """Close the connections of a client of ``connect_async``, also those to Sentinels."""
    await client.aclose()
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    for each in manager.sentinels if manager is not None else ():
        await each.aclose()


def _options(connect_s: float, read_s: float, retry: object) -> dict[str, Any]:
    # Without driver_info=None each connection begins with CLIENT SETINFO, which the user may not.
    return {
        "socket_connect_timeout": connect_s,
        "socket_timeout": read_s,
        "retry": retry,
        "protocol": 2,
        "driver_info": None,
    }


def _connect(url: str, direct: Any, sentinel: Any, options: dict[str, Any]) -> Client:
    parts = urlsplit(url)
    if parts.scheme != "unix":
        options |= _keep_alive()
    if parts.scheme != "redis+sentinel":
        return direct.from_url(url, **options)
    if parts.password is not None:
        options["password"] = unquote(parts.password)
        if parts.username:
            options["username"] = unquote(parts.username)
    query = dict(parse_qsl(parts.query))
    secure: dict[str, Any] = {"ssl": True} if query.get("tls") == "true" else {}
    if secure and (ca_certs := query.get("ssl_ca_certs")):
        secure["ssl_ca_certs"] = ca_certs
    service = parts.path.strip("/")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not service or not all(hosts):
        raise ValueError("write redis+sentinel://HOST:PORT,HOST:PORT/NAME")
    own = ("username", "password", "redis_connect_func")
    asked = {name: value for name, value in options.items() if name not in own}
    options |= secure
    sentinels = sentinel(
        [_parse_host(host) for host in hosts], sentinel_kwargs=asked | secure, **options
    )
    return sentinels.master_for(service)


def _keep_alive() -> dict[str, Any]:
    numbers = {name: getattr(socket, name, None) for name in _KEEP_ALIVE}  # not on every system
    wanted = {number: _KEEP_ALIVE[name] for name, number in numbers.items() if number is not None}
    return {"socket_keepalive": True, "socket_keepalive_options": wanted}


class _Connections:
    """Counts the connections that a client has made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, connection: Any) -> None:
        connection.on_connect()
        self.made += 1


class ServerWatch:
    """Detects which server a client of ``connect`` talks to.

    A change of servers usually comes with a new connection, so the server is asked after each; since
    connections of a primary that is made a replica by hand stay open, it is also asked each second."""

    def __init__(self, client: Client, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._connections: _Connections = client.get_connection_kwargs()["redis_connect_func"]
        self._clock_s = clock_s
        self._found: Identity | None = None
        self._asked_on, self._asked_at_s = 0, 0.0

    def identify(self) -> Identity:
        """Return the identity of the server that responds now. Raises redis.RedisError."""
        now_s = self._clock_s()
        is_known = self._asked_on == self._connections.made and now_s < self._asked_at_s + ASK_S
        if self._found is None or not is_known:
            self.forget()
            self._found = _ask(self._client)
            self._asked_on, self._asked_at_s = self._connections.made, now_s
        return self._found

    def forget(self) -> None:
        """Have the next ``identify`` ask the server."""
        self._found = None


def is_wrong_type(error: Exception) -> bool:
    """Return whether an error means that a key has a value of another type than expected."""
    return isinstance(error, redis.ResponseError) and str(error).startswith("WRONGTYPE")


def _ask(client: Client) -> Identity:
    info: dict[str, Any] = client.info("server", "replication")
    return Identity(str(info["run_id"]), str(info["role"]), str(info["master_replid"]))


def _parse_host(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    return (host, int(port)) if separator else (text, SENTINEL_PORT)
