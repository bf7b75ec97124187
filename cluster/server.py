"""The Redis or Valkey server of a cluster, and which process of it answers.

Facts about redis-py that are behind the options: by default it retries a command ten times with
pauses, so that a call to a dead server returns after seconds; and it would send a pipeline twice
without anybody knowing. Here a command fails at once, and the caller decides.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

CONNECT_S, READ_S = 1.0, 5.0
QUICK_S = 0.3
SENTINEL_PORT = 26379

# redis-py types a result as one of a synchronous or an asynchronous client, which says nothing.
type Client = Any


@dataclass(frozen=True, slots=True)
class Identity:
    """The server that answers. One that was restarted, or has taken another's place, may lack what its
    predecessor had acknowledged."""

    run_id: str
    role: str


def connect(url: str) -> Client:
    """Return a client of a server, or of the primary that sentinels name.

    It connects with its first command. Replies are bytes. Addresses begin with ``redis://``, ``rediss://``
    (TLS) or ``redis+sentinel://``. Sentinels are named with the name of their service as path:
    ``redis+sentinel://user:password@host:26379,host:26379/main?tls=true``. Raises ValueError."""
    options = _options(CONNECT_S, READ_S, Retry(NoBackoff(), 0))
    return _connect(url, redis.Redis, Sentinel, options)


def connect_async(url: str) -> Client:
    """Return the like for an event loop. What it is for must not keep a call waiting."""
    options = _options(QUICK_S, QUICK_S, AsyncRetry(NoBackoff(), 0))
    return _connect(url, redis.asyncio.Redis, AsyncSentinel, options)


def _options(connect_s: float, read_s: float, retry: object) -> dict[str, Any]:
    return {"socket_connect_timeout": connect_s, "socket_timeout": read_s, "retry": retry}


def _connect(url: str, direct: Any, sentinel: Any, options: dict[str, Any]) -> Client:
    parts = urlsplit(url)
    if parts.scheme != "redis+sentinel":
        return direct.from_url(url, **options)
    if parts.password is not None:
        options["password"] = unquote(parts.password)
        if parts.username:
            options["username"] = unquote(parts.username)
    if parse_qs(parts.query).get("tls") == ["true"]:
        options["ssl"] = True
    service = parts.path.strip("/")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not service or not all(hosts):
        raise ValueError("write redis+sentinel://HOST:PORT,HOST:PORT/NAME")
    asked = {name: options[name] for name in ("socket_connect_timeout", "socket_timeout")}
    sentinels = sentinel([_parse_host(host) for host in hosts], sentinel_kwargs=asked, **options)
    return sentinels.master_for(service)


def identify(client: Client) -> Identity:
    """Return which server answers now. Raises redis.RedisError."""
    info: dict[str, Any] = client.info("server")
    role: list[Any] = client.execute_command("ROLE")
    return Identity(str(info["run_id"]), role[0].decode())


def _parse_host(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    return (host, int(port)) if separator else (text, SENTINEL_PORT)
