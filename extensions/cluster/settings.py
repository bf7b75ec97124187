"""The settings of a cluster."""

import re

from runtime.node import PARTS, Part
from runtime.safe_text import hide_credentials
from runtime.setting import PREFER_VARIABLE, Setting
from runtime.setting_values import ENCODED

# Files of a node in its data directory: its name, and where the calls are.
NODE_FILE, NODES_FILE = "node.id", "nodes.json"
_SCHEMES = ("redis", "rediss", "redis+sentinel")
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)


def parse_server(text: str) -> str | None:
    """Return the URL of the Redis server or its Sentinels, None for empty text. Raises ValueError."""
    if not text:
        return None
    scheme, _, rest = text.partition("://")
    if scheme == "unix" and rest:
        return text
    # The place ends where / ? or # begins, as the library reads it: these in a password are a mistake.
    place = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    most = 100 if scheme == "redis+sentinel" else 1
    if scheme not in _SCHEMES or not _is_list_of_hosts(place, most):
        raise ValueError(
            "write redis://…, rediss://… (TLS) or redis+sentinel://HOST:PORT,HOST:PORT/NAME;"
            f" {ENCODED}"
        )
    return text


def _is_list_of_hosts(text: str, most: int) -> bool:
    hosts = text.split(",")
    return len(hosts) <= most and all(map(_HOST_AND_PORT.fullmatch, hosts))


def parse_roles(text: str) -> frozenset[Part]:
    """Return the roles of a node. Raises ValueError."""
    if text == "all":
        return PARTS
    roles = {part.strip() for part in text.split(",")}
    if not roles <= PARTS:
        raise ValueError("write all, or some of proxy, recorder, web, separated by commas")
    return frozenset(each for each in PARTS if each in roles)


def parse_group(text: str) -> str:
    """Return the name of a group of recorder nodes. Raises ValueError."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", text):
        raise ValueError("write lower-case letters, digits and hyphens, at most 63")
    return text


CLUSTER = Setting(
    "cluster",
    "",
    parse_server,
    "The Redis or Valkey server by which several nodes are one service: redis://, rediss://,"
    f" redis+sentinel://HOST:PORT,HOST:PORT/NAME. {PREFER_VARIABLE}",
    is_secret=True,
    redact=hide_credentials,
)
ROLE = Setting(
    "role",
    "all",
    parse_roles,
    "What this node does in a cluster: all, or of proxy, recorder and web, separated by commas.",
)
GROUP = Setting(
    "group",
    "main",
    parse_group,
    "The copy of all calls that this recorder node keeps. A second group is a second copy.",
)
